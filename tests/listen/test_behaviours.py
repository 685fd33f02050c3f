"""The local parts of addresses: which behaviour each asks for, and which make no sense."""

import re

import pytest

from conformance.faults import FAULTS
from conformance.listen.behaviours import UnknownBehaviour, describe_behaviours, parse_behaviour


def parsed(local: str) -> tuple[list[str], str | None, int | None, bool]:
    behaviour = parse_behaviour(f"{local}@example.test")
    assert behaviour is not None
    faults = [f"{f.does} {f.when} {f.at}" + (f": {f.reply}" if f.reply else "") for f in behaviour.faults]
    return faults, behaviour.dot_reply, behaviour.times, behaviour.early


@pytest.mark.parametrize(
    ("local", "faults", "dot_reply", "times", "early"),
    [
        ("rcpt-451", ["answer before RCPT: 451 4.3.0 rcpt-451"], None, 1, False),
        ("RCPT-451+a-b", ["answer before RCPT: 451 4.3.0 rcpt-451"], None, 1, False),
        ("rcpt-550", ["answer before RCPT: 550 5.3.0 rcpt-550"], None, None, False),
        ("rcpt-421", ["answer before RCPT: 421 4.3.0 rcpt-421", "drop answered RCPT"], None, 1, False),
        ("data-452-x3", ["answer before DATA: 452 4.3.0 data-452-x3"], None, 3, False),
        ("dot-451-always", [], "451 4.3.0 dot-451-always", None, False),
        ("dot-554", [], "554 5.3.0 dot-554", None, False),
        ("dot-421", ["drop answered dot"], "421 4.3.0 dot-421", 1, False),
        ("greeting-554", ["replace after greeting: 554 greeting-554"], None, 1, True),
        ("mail-452", ["answer before MAIL: 452 4.3.0 mail-452"], None, 1, True),
        ("ehlo-250", ["replace after EHLO: 250 listen.test"], None, 1, True),
        ("ehlo-250-x3", ["replace after EHLO: 250 listen.test"], None, 3, True),
        ("ehlo-502", ["answer before EHLO: 502 ehlo-502"], None, 1, True),
        ("silent", ["stall after dot"], None, 1, False),
        ("silent-mail", ["stall after MAIL"], None, 1, True),
        ("refuse", ["refuse before connect"], None, 1, True),
        ("drop-connect", ["drop before connect"], None, 1, True),
        ("drop-heard-dot", ["drop heard dot"], None, 1, False),
        ("cut-after-dot", ["cut after dot"], None, 1, False),
        ("garble-rcpt", ["garble after RCPT"], None, 1, False),
        ("half-close-data", ["half-close after DATA"], None, 1, False),
        ("reset-body-100", ["reset before body"], None, 1, False),
        ("delay-dot-1m30s", ["delay after dot"], None, 1, False),
    ],
)
def test_a_local_part_asks_for_faults_and_replies(
    local: str, faults: list[str], dot_reply: str | None, times: int | None, early: bool
):
    assert parsed(local) == (faults, dot_reply, times, early)


def test_values_are_durations_rates_and_offsets():
    for local, field, value in (
        ("delay-dot-1m30s", "lasting", 90.0),
        ("throttle-rcpt-10", "rate", 10),
        ("reset-body-100", "offset", 100),
        ("cut-dot-3", "offset", 3),
    ):
        behaviour = parse_behaviour(f"{local}@example.test")
        assert behaviour is not None
        assert getattr(behaviour.faults[0], field) == value


@pytest.mark.parametrize(
    "local",
    ["alice", "o'brien-smith", "sales-eu", "dot", "reset", "dropbox-eu", "rcpts-451", "x+rcpt-451", "no-reply"],
)
def test_other_addresses_ask_for_nothing(local: str):
    assert parse_behaviour(f"{local}@example.test") is None


@pytest.mark.parametrize(
    ("local", "problem"),
    [
        ("rcpt-250", "400 to 599"),
        ("rcpt-999", "400 to 599"),
        ("ehlo-2505", "400 to 599"),
        ("drop-5", "not a place"),
        ("silent-foo", "not a place"),
        ("delay-dot", "needs `lasting`"),
        ("delay-dot-soon", "not a valid duration"),
        ("throttle-rcpt-fast", "not a number of octets a second"),
        ("reset-rcpt-5", "nothing may follow rcpt"),
        ("garble-before-rcpt", "would not notice"),
        ("stall-connect", "would not notice"),
        ("split-body", "would not notice"),
        ("delay-answered-dot-5s", "comes too late"),
        ("drop-heard-greeting", "nothing is heard"),
        ("mail-room", "no such behaviour"),
    ],
)
def test_what_begins_like_a_behaviour_and_is_none_is_refused_with_the_reason(local: str, problem: str):
    with pytest.raises(UnknownBehaviour, match=problem):
        parse_behaviour(f"{local}@example.test")


def test_the_list_has_every_kind_of_fault_that_an_address_can_ask_for():
    text = describe_behaviours()
    for name, kind in FAULTS.items():
        if name in ("replace", "answer"):
            assert re.search(r"^  PLACE-CODE +replies CODE", text, re.MULTILINE)
        else:
            assert re.search(rf"^  {name}(-\S+)? +{re.escape(kind.about)}$", text, re.MULTILINE), name
