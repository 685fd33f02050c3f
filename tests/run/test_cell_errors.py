"""An exception that ends a cell is told as a sentence, also when it has no words of its own."""

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
def test_an_error_is_a_sentence(error: Exception, words: str) -> None:
    assert describe_errors(ExceptionGroup("several", [ExceptionGroup("inner", [error]), error])) == words
