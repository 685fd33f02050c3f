"""The sentence for an exception that ends a cell, also for one without a message, and that for a cell without a verdict."""

import pytest

from conformance.execute import worst_sentence
from conformance.nodes.contract import NodeError
from conformance.run.cell import describe_errors


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "something took longer than the harness waits for it (TimeoutError)"),
        (TimeoutError("the node was silent"), "TimeoutError: the node was silent"),
        (KeyError(), "KeyError without a message"),
        (NodeError("mbx1", "start", "it would not start"), "mbx1: start: it would not start"),
    ],
)
def test_each_exception_is_described_once(error: Exception, words: str) -> None:
    other = LookupError("another one")
    errors = ExceptionGroup("several", [ExceptionGroup("inner", [error, other]), error])
    assert describe_errors(errors) == f"{words}; LookupError: another one"


def test_a_cell_without_a_verdict_has_a_sentence() -> None:
    assert worst_sentence(()) == "no check judged anything in this cell"
