"""`conformance node` and `conformance queues`: the reference transport as a program, and a look into it."""

import importlib
from pathlib import Path


def run_node(arguments: list[str]) -> int:
    """Hand the arguments to the reference's own entry point, found by name: the harness imports nothing of it."""
    code: int = importlib.import_module("conformance.reference.main").main(arguments)
    return code


def print_queues(config: Path) -> int:
    """Print the queues of a running node as a table; 1 when it does not run, 2 when the file names no node."""
    code: int = importlib.import_module("conformance.reference.main").show_queues(config)
    return code
