"""How long a client waits for each reply, against the minima of RFC 5321 4.5.3.2, in histories of minutes written by hand."""

from collections.abc import Iterable
from typing import Any

import pytest

from conformance.history.events import AnyEvent, Closed, Command, Connected, Content, FaultFired, Reply
from conformance.listen.checks import judge_client
from conformance.listen.record import ListenRecord
from conformance.wire.content import digest

VERBS = ("GREETING", "EHLO", "MAIL", "RCPT", "DATA", "CONTENT")
CODES = {"GREETING": 220, "DATA": 354}


def events_until(
    awaited: str, *, at: float = 1.0, by: str | None = "client", gave_up_at: float = 0.0
) -> Iterable[AnyEvent]:
    """Yield a session in which the reply to `awaited` was held from `at` on, and which the party `by` ended at `gave_up_at` (None: it was still open)."""
    n = 0

    def event(kind: Any, t: float, **fields: Any) -> Any:
        nonlocal n
        n += 1
        return kind(n=n, t=t, session="s1", **fields)

    yield event(Connected, at if awaited == "GREETING" else 0.0, client="client", server="listen", listener="smtp")
    for verb in VERBS:
        t = at if verb == awaited else 0.0
        if verb == "CONTENT":
            yield event(Content, t, digest=digest(b"x\r\n"))
        elif verb != "GREETING":
            yield event(Command, t, verb=verb, line="RCPT TO:<silent@b.test>" if verb == "RCPT" else verb)
        if verb == awaited:
            break
        yield event(Reply, t, to=verb, code=CODES.get(verb, 250), lines=("ok",))
    detail = "after dot: 250 ok"
    yield event(FaultFired, at, fault="b1", action="stall", client="client", server="listen", detail=detail)
    if by is not None:
        yield event(Closed, gave_up_at, by=by, how="fin")


def outcome(check: str, events: Iterable[AnyEvent], ended: float = 10_000.0) -> tuple[str, str]:
    """Return the outcome and the sentence of a check."""
    findings = {found.check: found for found in judge_client(ListenRecord(tuple(events), ended=ended))}
    return str(findings[check].outcome), findings[check].sentence


MINIMA = [("GREETING", 300), ("MAIL", 300), ("RCPT", 300), ("DATA", 120), ("CONTENT", 600)]
CHECKS = {"CONTENT": "dot-timeout"}


@pytest.mark.parametrize(("awaited", "least"), MINIMA)
def test_the_wait_for_a_reply_is_compared_with_the_minimum_for_it(awaited: str, least: int):
    check = CHECKS.get(awaited, f"{awaited.lower()}-timeout")
    assert outcome(check, events_until(awaited, gave_up_at=1.0 + least))[0] == "pass"
    early, sentence = outcome(check, events_until(awaited, gave_up_at=least - 1.0))
    assert early == "warn"
    assert "gave up after" in sentence


@pytest.mark.parametrize(("awaited", "least"), MINIMA)
def test_a_wait_that_the_listener_ended_is_judged_by_its_length(awaited: str, least: int):
    check = CHECKS.get(awaited, f"{awaited.lower()}-timeout")
    assert outcome(check, events_until(awaited, by=None), ended=1.0 + least)[0] == "pass"
    assert outcome(check, events_until(awaited, by=None), ended=least - 1.0)[0] == "inconclusive"
    assert outcome(check, events_until(awaited, by="link", gave_up_at=least - 1.0))[0] == "inconclusive"
    assert outcome(check, events_until(awaited, by="link", gave_up_at=1.0 + least))[0] == "pass"


@pytest.mark.parametrize(("closed_at", "expected"), [(1.1, "inconclusive"), (599.0, "inconclusive"), (601.0, "pass")])
def test_a_direction_that_was_closed_behind_quit_shows_how_long_the_client_waited_at_least(
    closed_at: float, expected: str
):
    events = [*events_until("CONTENT", by=None), Command(n=99, t=1.01, session="s1", verb="QUIT", line="QUIT")]
    record = ListenRecord(tuple(events), half_closed={"s1": closed_at}, ended=5000.0)
    findings = {found.check: str(found.outcome) for found in judge_client(record)}
    assert findings["dot-timeout"] == expected


def test_ehlo_has_no_minimum():
    events = tuple(events_until("EHLO", gave_up_at=2.0))
    findings = judge_client(ListenRecord(events, ended=10.0))
    assert {str(found.outcome) for found in findings if found.check.endswith("-timeout")} == {"not-applicable"}
    assert outcome("mail-timeout", events_until("MAIL", gave_up_at=2.0), ended=10.0)[0] == "warn", "MAIL has one"


def test_a_client_that_says_quit_instead_of_waiting_gave_up_then():
    events = [*events_until("CONTENT", by=None)]
    quit_said = Command(n=99, t=31.0, session="s1", verb="QUIT", line="QUIT")
    text = outcome("dot-timeout", [*events, quit_said], ended=5000.0)
    assert text == ("warn", "gave up after 30s without the reply to the final dot; 10m are the minimum")


def test_a_quit_that_was_pipelined_behind_the_dot_is_not_giving_up():
    events = [*events_until("CONTENT", by=None)]
    quit_said = Command(n=99, t=1.01, session="s1", verb="QUIT", line="QUIT")
    assert outcome("dot-timeout", [*events, quit_said], ended=5000.0)[0] == "pass"
