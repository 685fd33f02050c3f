"""Scenarios as pytest knows them: the options, the collectors, the item that is one cell, and the run as a whole.

`conformance.plugin` holds the hooks and nothing else; what they do is here.
"""
