"""Timing faults (stall, delay, throttle, split, merge) change no octet, in any mixture."""

import hypothesis.strategies as st
from hypothesis import example, given, settings

from conformance.faults import DELAYING_FAULTS, HOLDING_FAULTS
from conformance.history.events import Content, FaultFired
from conformance.scenarios.steps.breaking import Fault
from tests.wire.peers import World, run

PARTS = {
    "stall": {"lasting": "1m"},
    "delay": {"lasting": "1m"},
    "throttle": {"rate": 50},
    "split": {},
    "merge": {"lasting": "1m"},
}
SAID = (
    (b"EHLO a\r\nMAIL FROM:<x@y>\r\n", b"MAIL\r\n"),
    (b"RCPT TO:<z@y>\r\nDATA\r\n", b"354 go on\r\n"),
    (b"A: b\r\n\r\n..dot\r\n" + b"".join(b"%02d" % n for n in range(100)) + b"\r\n.\r\nRSET\r\n", b"RSET\r\n"),
    (b"QUIT\r\n", b"221 bye\r\n"),
)

_FAULTS = st.lists(
    st.builds(
        lambda does, place, when, nth, offset: {
            "from": "a", "to": "b", "does": does, "at": place, "nth": nth, "times": None, **PARTS[does],
            **({"offset": offset} if place == "body" else {"when": when}),
        },
        st.sampled_from(sorted(PARTS)),
        st.sampled_from(["greeting", "EHLO", "MAIL", "RCPT", "DATA", "body", "dot", "RSET", "QUIT"]),
        st.sampled_from(["before", "after"]),
        st.integers(1, 2),
        st.integers(0, 230),
    ),
    max_size=6,
)  # fmt: skip


def converse(faults: list[dict[str, object]]) -> tuple[bytes, bytes, str, list[str]]:
    """Return the octets that client and server received, the content's digest, and the kinds of the faults that fired."""

    async def test(world: World) -> tuple[bytes, bytes, str, list[str]]:
        for number, fault in enumerate(faults):
            world.links.arm(Fault.model_validate({"as": f"f{number}", **fault}))
        client = await world.connect_greeted()
        for octets, answer in SAID:
            await client.exchange(octets, answer)
        await client.wait_closed()
        (content,) = world.events(Content)
        fired = [event.action for event in world.events(FaultFired)]
        return client.octets, world.server.octets, content.digest.sha256, fired

    return run(test)


ONE_OF_EACH: list[dict[str, object]] = [
    {"from": "a", "to": "b", "does": does, "at": place, "times": None, **PARTS[does]}
    for does, place in zip(sorted(PARTS), ("EHLO", "MAIL", "RCPT", "body", "dot"), strict=True)
]


@settings(max_examples=60)
@example(ONE_OF_EACH)
@given(_FAULTS)
def test_a_mixture_of_timing_faults_changes_no_octet(faults: list[dict[str, object]]) -> None:
    assert converse(faults)[:3] == converse([])[:3]


def test_each_timing_fault_fires() -> None:
    assert set(PARTS) == DELAYING_FAULTS | HOLDING_FAULTS | {"split"}, (
        "every kind that keeps octets back, and the splitting one"
    )
    assert sorted(converse(ONE_OF_EACH)[3]) == sorted(PARTS)
