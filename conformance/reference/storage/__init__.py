"""The queue database: one SQLite file for each node, and all that is durable in it.
`database` is transactions and group commit; each other module holds the statements of one table's concept.
No other package of the reference speaks SQL.
"""
