"""Runs one cell, from the start of its nodes to its history: clocks, the topology's parties, and the steps.

Nothing here decides what is right; it only makes things happen and records them.
"""
