"""The smuggling matrix of eight servers, compared with what was confirmed by hand (docs/probing.md). It takes minutes."""

import os
from pathlib import Path

import pytest

from conformance.cli import main
from tests.smuggling.test_matrix import passages

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SERVERS = (
    "postfix", "postfix-normalize", "exim", "sendmail", "opensmtpd", "haraka", "aiosmtpd", "exec:reference",
)  # fmt: skip
NAMES = (*SERVERS[:-1], "reference")

SPLIT = {
    "postfix": {
        "crlf-dot-lf",
        "lf-dot-crlf",
        "lf-dot-lf",
        "crlf-dot-cr-crlf",
        "cr-crlf-dot-cr-crlf",
        "cr-nul-lf-dot",
    }
}
"""Relay -> the variants at which it ends a message."""

SMUGGLED = {("haraka", "postfix"): {"crlf-dot-cr-crlf", "cr-crlf-dot-cr-crlf"}}
"""Relay, receiver -> the variants that are one message for the relay and two for the receiver."""


def test_what_becomes_two_messages_is_exactly_what_the_tables_have(tmp_path: Path):
    out = Path(os.environ.get("CONFORMANCE_RUN_DIR", tmp_path / "smuggling"))
    with pytest.raises(SystemExit) as left:
        main(["smuggling", *SERVERS, "--out", str(out)])
    assert left.value.code == 1
    found = passages(out)
    assert set(found) == {(relay, receiver) for relay in NAMES for receiver in NAMES}
    assert [pair for pair, variants in found.items() if "one" not in variants.values()] == [], "nothing came through"

    def variants_with(passage: str) -> dict[tuple[str, str], set[str]]:
        return {
            pair: names
            for pair, variants in found.items()
            if (names := {name for name, became in variants.items() if became == passage})
        }

    assert variants_with("split-by-relay") == {(relay, to): SPLIT[relay] for relay in SPLIT for to in NAMES}
    assert variants_with("smuggled") == SMUGGLED
