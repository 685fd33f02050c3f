"""`conformance node`: the reference transport as a program."""

import importlib


def run_node(arguments: list[str]) -> int:
    """Hand the arguments to the reference's own entry point, found by name: the harness imports nothing of it."""
    code: int = importlib.import_module("conformance.reference.main").main(arguments)
    return code
