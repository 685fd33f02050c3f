"""Which of several transactions in one session a reply counts for, and what a fault there excuses; in sessions written by hand."""

from typing import Any

import pytest

from conformance.faults import FAULTS
from conformance.history.events import AnyEvent, Closed, Command, Connected, Content, FaultFired, Reply
from conformance.listen.checks import judge_client
from conformance.listen.checks.delivery import find_attempts
from conformance.listen.record import Attempted, ListenRecord
from conformance.trace.trace import Trace
from conformance.wire.content import digest

ALICE, BOB = "RCPT TO:<alice@b.test>", "RCPT TO:<bob@b.test>"
MAIL = ("> MAIL FROM:<a@a.test>", "< MAIL 250")
ACCEPTED = (*MAIL, f"> {ALICE}", "< RCPT 250", "> DATA", "< DATA 354", ".", "< CONTENT 250")


def written(*lines: str, by: str = "client") -> ListenRecord:
    """Return the record of one session that the party `by` ended, with one event a second.

    `> LINE` is a command, `< VERB CODE` a reply, `.` a content, always the same, and `! ACTION` a fault that fired.
    """
    events: list[AnyEvent] = []
    attempts = []

    def add(kind: Any, **fields: Any) -> None:
        events.append(kind(n=len(events), t=float(len(events)), session="s1", **fields))

    add(Connected, client="client", server="listen", listener="smtp")
    for mark, _, rest in (line.partition(" ") for line in lines):
        verb, _, code = rest.partition(" ")
        if mark == ">":
            add(Command, verb=verb, line=rest)
        elif mark == "<":
            add(Reply, to=verb, code=int(code), lines=("ok",))
        elif mark == "!":
            add(FaultFired, fault="b1", action=rest, client="client", server="listen")
        else:
            add(Content, digest=digest(b"x\r\n"))
        if verb == "RCPT" and mark == ">":
            address = rest.partition("<")[2].rstrip(">")
            attempts.append(Attempted(session="s1", t=events[-1].t, address=address, behaviour=""))
    add(Closed, by=by, how="fin")
    return ListenRecord(tuple(events), attempts=attempts, ended=float(len(events)))


def results(record: ListenRecord) -> list[tuple[str, str]]:
    """Return the local part and the result of each attempt."""
    return [(found.address.partition("@")[0], found.result) for found in find_attempts(record, Trace(record.events))]


@pytest.mark.parametrize(
    ("later", "of_later"),
    [
        ((*MAIL, f"> {BOB}", "< RCPT 250", "> DATA", "< DATA 452"), [("bob", "transient")]),
        (
            (*MAIL, f"> {BOB}", "< RCPT 250", "> DATA", "< DATA 354", ".", "< CONTENT 552"),
            [("bob", "permanent")],
        ),
        ((*MAIL, f"> {ALICE}", "< RCPT 450"), [("alice", "transient")]),
        (("> MAIL FROM:<c@a.test>", "< MAIL 452"), []),
    ],
    ids=["DATA", "content", "RCPT of the same address", "MAIL"],
)
def test_a_refusal_in_a_later_transaction_is_not_charged_to_an_earlier_one(
    later: tuple[str, ...], of_later: list[tuple[str, str]]
):
    record = written(*ACCEPTED, *later, "> QUIT", "< QUIT 221")
    assert results(record) == [("alice", "accepted"), *of_later]
    found = {finding.check: finding for finding in judge_client(record)}
    assert str(found["arrives-once"].outcome) == "pass"
    assert "alice" not in found["retry"].sentence or of_later[0][0] == "alice"


@pytest.mark.parametrize(
    ("refused", "of_refused"),
    [
        (("> MAIL FROM:<a@a.test>", "< MAIL 452"), []),
        ((*MAIL, f"> {ALICE}", "< RCPT 450"), [("alice", "transient")]),
        ((*MAIL, f"> {ALICE}", "< RCPT 250", "> DATA", "< DATA 452"), [("alice", "transient")]),
        (
            (*MAIL, f"> {ALICE}", "< RCPT 250", "> DATA", "< DATA 354", ".", "< CONTENT 552"),
            [("alice", "permanent")],
        ),
    ],
    ids=["MAIL", "RCPT", "DATA", "content"],
)
def test_a_refusal_in_an_earlier_transaction_is_not_charged_to_a_later_one(
    refused: tuple[str, ...], of_refused: list[tuple[str, str]]
):
    record = written(*refused, "> RSET", "< RSET 250", *ACCEPTED)
    assert results(record) == [*of_refused, ("alice", "accepted")]


@pytest.mark.parametrize(("then", "result"), [(MAIL, "abandoned"), ((), "lost")])
def test_a_client_that_begins_another_message_has_abandoned_the_one_without_content(then: tuple[str, ...], result: str):
    assert results(written(*MAIL, f"> {ALICE}", "< RCPT 250", *then, by="link")) == [("alice", result)]


@pytest.mark.parametrize("between", [(), (f"> {ALICE}", "< RCPT 250")], ids=["nothing", "the recipient"])
def test_an_accepted_message_that_comes_again_is_found_behind_an_attempt_without_content(between: tuple[str, ...]):
    record = written(*ACCEPTED, *MAIL, *between, "> RSET", "< RSET 250", *ACCEPTED)
    assert [result for _, result in results(record)] == ["accepted", *["abandoned"] * bool(between), "accepted"]
    found = {finding.check: finding for finding in judge_client(record)}["arrives-once"]
    assert str(found.outcome) == "fail"
    assert "more" not in found.sentence, "the last one was sent once"


@pytest.mark.parametrize("action", [None, *FAULTS])
@pytest.mark.parametrize("at", ["EHLO", "MAIL"])
def test_only_a_fault_that_does_more_than_to_reply_excuses_what_was_sent_without_waiting(action: str | None, at: str):
    """EHLO offers nothing, and RCPT is sent before the reply to MAIL."""
    said = ["< GREETING 220", "> EHLO a.test", "< EHLO 250", MAIL[0], f"> {ALICE}", "< MAIL 250", "< RCPT 250"]
    if action is not None:
        said.insert(next(number for number, line in enumerate(said) if at in line) + 1, f"! {action}")
    found = {finding.check: str(finding.outcome) for finding in judge_client(written(*said))}
    assert found["reply-wait"] == ("fail" if action in (None, "answer", "replace") else "pass")
