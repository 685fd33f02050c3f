"""Which candidates are ordinary relays, that the rules about shadow redundancy do not bind."""

import pytest

from conformance.scenarios.document import CAPABILITIES
from conformance.trace.context import is_relay_only


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ((), True),
        (("relay", "dsn", "lmtp-delivery", "inspect"), True),
        (("relay", "delayed-acknowledgement"), True),
        *(
            (("relay", claim), claim in ("relay", "dsn", "lmtp-delivery", "inspect", "delayed-acknowledgement"))
            for claim in CAPABILITIES
        ),
        (("relay", "shadow-2010", "delayed-acknowledgement"), False),
        (("relay", "shadow-2013"), False),
    ],
)
def test_a_candidate_that_claims_capabilities_of_a_relay_only_is_a_relay_and_no_other_is(
    claims: tuple[str, ...], expected: bool
) -> None:
    assert is_relay_only(frozenset(claims)) is expected
