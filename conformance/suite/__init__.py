"""Runs scenarios under pytest: options, collection, the item that is one cell, baselines, and the run as a whole.

`conformance.plugin` has the hooks, which call what is here.
"""
