"""The queue database: one SQLite file for each node, with everything that is durable in it.

`database` has transactions and group commit, `schema` the tables; each other module has the statements of one concept. Of the
other packages of the reference only `defects` and `readings` use SQL.
"""
