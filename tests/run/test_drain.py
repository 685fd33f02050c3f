"""Which accepted messages are undelivered, so that the drain waits for them; what a server holds in the end is judged."""

from typing import Any

import pytest

from conformance import paths
from conformance.defects import trial
from conformance.defects.plan import PlannedTrial
from conformance.history.events import AnyEvent, Attempt, Command, Connected, Delivered, MessageMade, Reply
from conformance.history.values import Digest
from conformance.run.drain import Undelivered
from conformance.scenarios.loader import read_scenarios

RECIPIENT = "victor@outside.test"


def digest(name: str, body: str, **rest: Any) -> Digest:
    return Digest(size=1, sha256=body, body_sha256=body, stable_sha256=body, message_id=name, **rest)


def undelivered(
    arrived: Digest, recipient: str = RECIPIENT, to: tuple[str, ...] = (RECIPIENT,), mailboxes: tuple[str, ...] = ()
) -> list[str]:
    made = MessageMade(
        n=0, t=0, message="m#1", message_id="m@x", sender="a@x", recipients=to, digest=digest("m@x", "body")
    )
    attempt = Attempt(
        n=1, t=0, message="m#1", attempt=1, client="outside", server="mta1", listener="frontend", outcome="answered",
        code=250, accepted=to, dot_sent=True,
    )  # fmt: skip
    delivered = Delivered(n=2, t=0, sink="outside", giver="mta1", recipient=recipient, sender="a@x", digest=arrived)
    orders = ((made, attempt, delivered), (made, delivered, attempt))
    found, early = (Undelivered(events, mailboxes).descriptions for events in orders)
    assert found == early, "it may arrive, or be reported, before its sender is answered"
    return found


def test_a_delivered_message_is_not_undelivered():
    assert undelivered(digest("m@x", "body")) == []
    assert undelivered(digest("m@x", "body"), "wendy@outside.test") == [f"m#1 to {RECIPIENT}"]
    assert undelivered(digest("other@x", "other")) == [f"m#1 to {RECIPIENT}"]


def test_a_message_that_arrived_altered_is_not_undelivered():
    assert undelivered(digest("m@x", "altered")) == []
    assert undelivered(digest("n@x", "altered")) == [f"m#1 to {RECIPIENT}"], "another message"


def test_a_reported_failure_is_not_undelivered():
    assert undelivered(digest("dsn@mta1", "dsn", report="delivery-status", about="m@x"), "a@x") == []
    failure = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", action="failed")
    assert undelivered(failure, "a@x") == []
    mixed = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", action="delayed", failed=(RECIPIENT,))
    assert undelivered(mixed, "a@x") == [], "its first action is about another recipient"
    other = digest("dsn@mta1", "dsn", report="delivery-status", about="n@x")
    assert undelivered(other, "a@x") == [f"m#1 to {RECIPIENT}"], "a report about another message"
    delay = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", action="delayed")
    assert undelivered(delay, "a@x") == [f"m#1 to {RECIPIENT}"], "a report about a delay"
    success = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", action="relayed")
    assert undelivered(success, "a@x") == [f"m#1 to {RECIPIENT}"], "a report about another recipient, perhaps"


def test_letter_case_distinguishes_outside_recipients_and_not_mailboxes():
    both = (RECIPIENT, "Victor@outside.test")
    assert undelivered(digest("m@x", "body"), "victor@OUTSIDE.test", both) == ["m#1 to Victor@outside.test"]
    assert undelivered(digest("m@x", "body"), RECIPIENT, both, mailboxes=(RECIPIENT,)) == []
    report = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", failed=("victor@OUTSIDE.test",))
    assert undelivered(report, "a@x", both) == ["m#1 to Victor@outside.test"]
    assert undelivered(report, "a@x", both, mailboxes=("VICTOR@outside.test",)) == []


def test_a_report_about_one_recipient_leaves_the_others_undelivered():
    wendy, xena = "wendy@outside.test", "xena@outside.test"
    report = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", failed=(wendy,))
    assert undelivered(report, "a@x", (RECIPIENT, wendy, xena)) == [f"m#1 to {RECIPIENT}", f"m#1 to {xena}"]


def refused(sender: str, client: str, code: int, to: str = "RCPT", rcpt: int = 250) -> list[str]:
    """Return what is undelivered of a message of a sender that a client tried to pass on, and a next hop refused.

    `code` is the reply to `to`; `rcpt`, if that is another command, the reply to the RCPT of the first recipient.
    """
    wendy = "wendy@outside.test"
    both = (RECIPIENT, wendy)
    made = MessageMade(
        n=0, t=0, message="m#1", message_id="m@x", sender=sender, recipients=both, digest=digest("m@x", "body")
    )
    attempt = Attempt(
        n=1, t=0, message="m#1", attempt=1, client="outside", server="mta1", listener="frontend", outcome="answered",
        code=250, accepted=both, dot_sent=True,
    )  # fmt: skip
    said = [("MAIL", f"MAIL FROM:<{sender}>"), ("RCPT", f"RCPT TO:<{RECIPIENT}>"), ("RCPT", f"RCPT TO:<{wendy}>")]
    codes = [250, code if to == "RCPT" else rcpt, 250]
    events: list[AnyEvent] = [Connected(n=2, t=0, session="s1", client=client, server="outside", listener="smtp")]
    events += [Command(n=3, t=0, session="s1", verb=verb, line=line) for verb, line in said]  # in one group
    events += [
        Reply(n=4, t=0, session="s1", to=verb, code=one, lines=("",))
        for (verb, _), one in zip(said, codes, strict=True)
    ]
    if to != "RCPT":
        events.append(Reply(n=5, t=0, session="s1", to=to, code=code, lines=("",)))
    found, early = (
        Undelivered(order, servers=("mta1",)).descriptions
        for order in ((made, attempt, *events), (made, *events, attempt))
    )
    assert found == early, "a next hop may refuse it before its sender is answered"
    return found


def test_what_is_refused_of_a_null_sender_is_not_undelivered():
    wendy, victor = "m#1 to wendy@outside.test", f"m#1 to {RECIPIENT}"
    assert refused("", "mta1", 550) == [wendy]
    assert refused("", "mta1", 554, to="CONTENT") == []
    assert refused("", "mta1", 554, to="DATA") == []
    assert refused("", "mta1", 554, to="DATA", rcpt=450) == [victor], "that was not refused for good"
    assert refused("", "mta1", 500, to="QUIT") == [victor, wendy], "no message was refused"
    for to in ("RCPT", "DATA", "CONTENT"):
        assert refused("", "mta1", 450, to=to) == [victor, wendy], "it is tried again"
    assert refused("a@x", "mta1", 550) == [victor, wendy], "a report is due"
    assert refused("", "outside", 550) == [victor, wendy], "no server of its own"


@pytest.mark.parametrize(("senders", "left"), [(("",), ("m#2",)), (("", "a@x"), ("m#1", "m#2"))])
def test_a_refusal_ends_it_for_messages_of_a_null_sender_in_transactions_of_one_only(
    senders: tuple[str, ...], left: tuple[str, ...]
):
    """A session has a transaction of each sender; the last one is refused."""
    events: list[AnyEvent] = [Connected(n=0, t=0, session="s1", client="mta1", server="outside", listener="smtp")]
    for message, sender in (("m#1", ""), ("m#2", "a@x")):
        events += [
            MessageMade(
                n=1, t=0, message=message, message_id=f"{message}@x", sender=sender, recipients=(RECIPIENT,),
                digest=digest(f"{message}@x", f"body of {message}"),
            ),
            Attempt(
                n=2, t=0, message=message, attempt=1, client="outside", server="mta1", listener="frontend",
                outcome="answered", code=250, accepted=(RECIPIENT,), dot_sent=True,
            ),
        ]  # fmt: skip
    for sender in senders:
        events.append(Command(n=3, t=0, session="s1", verb="MAIL", line=f"MAIL FROM:<{sender}>"))
        events.append(Reply(n=4, t=0, session="s1", to="MAIL", code=250, lines=("",)))
    events.append(Command(n=5, t=0, session="s1", verb="RCPT", line=f"RCPT TO:<{RECIPIENT}>"))
    events.append(Reply(n=6, t=0, session="s1", to="RCPT", code=550, lines=("",)))
    found = Undelivered(tuple(events), servers=("mta1",)).descriptions
    assert found == [f"{message} to {RECIPIENT}" for message in left]


@pytest.mark.parametrize(("defect", "blamed"), [(None, set()), ("keeps-every-third-discarded-shadow", {"SR-MNT-06"})])
def test_what_a_server_holds_in_the_end_is_judged(defect: str | None, blamed: set[str]):
    scenarios = read_scenarios(paths.corpus() / "creation" / "inbound.scenario.yaml", paths.fixtures())
    cell = next(
        cell
        for one in scenarios
        if one.id == "inbound-acknowledged-after-shadow"
        for cell in one.cells("smoke")
        if cell.axes.get("messages") == "20"
    )
    assert not any(step.verb == "inspect" for step in cell.all_steps)
    found = trial.run_trial(PlannedTrial(defect, cell), seed=1)
    assert blamed <= {blame.requirement for blame in found.blames}
    assert bool(found.blames) is bool(blamed)
    if defect is not None:
        assert "model.SR-MNT-06" in {blame.check for blame in found.blames}
