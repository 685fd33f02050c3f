"""Exploration: generated scenarios, run on a server and judged by the model alone.

A *plan* is an ordinary cell. `sweep` makes plans from a scenario, one for each fault at each point of its protocol; `grammar` draws
random ones. `trial` runs a plan and judges it, `shrink` reduces one that violates a rule, and `documents` writes what is left
as a scenario file.
"""
