"""Routing: pure functions of the configuration.

`next_hop` gives a recipient its next hop, `site_routes` has the least-cost routes between Active Directory sites and delayed
fan-out, `bifurcation` combines both and groups the recipients of a message by next hop (SR-BIF).
"""
