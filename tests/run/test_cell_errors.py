"""The sentence for an exception that ends a cell, also for one without a message."""

import pytest

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
    assert describe_errors(ExceptionGroup("several", [ExceptionGroup("inner", [error]), error])) == words
