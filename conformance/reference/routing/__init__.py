"""Routing between Active Directory sites, and where a message for several of them is split (SR-BIF).
`least_cost` is the site selection algorithm, `fan_out` delayed fan-out, `forks` puts both together with the routes out
of the organisation and gives each recipient its next hop. All of it is pure functions of the configuration.
"""
