"""Exploration: generated scenarios, run on a server and judged by the model alone.

A *plan* is one cell that is run with faults, and judged by the model alone: the rules of the documents. `sweep` makes plans from a
scenario, one for each fault at each point of its protocol; `random_plans` draws random ones by the grammar. `trial` runs a plan and
judges it, `shrink` reduces one that violates a rule, and `documents` writes what is left as a scenario file.
"""
