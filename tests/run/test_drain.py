"""What the end of a scenario waits for: every accepted message, at every recipient or in a report."""

from typing import Any

from conformance.history.events import Attempt, Delivered, MessageMade
from conformance.history.values import Digest
from conformance.run.drain import Undelivered

WHO = "victor@outside.test"


def digest(name: str, body: str, **rest: Any) -> Digest:
    return Digest(size=1, sha256=body, body_sha256=body, stable_sha256=body, message_id=name, **rest)


def account(
    arrived: Digest, who: str = WHO, to: tuple[str, ...] = (WHO,), mailboxes: tuple[str, ...] = ()
) -> list[str]:
    made = MessageMade(
        n=0, t=0, message="m#1", message_id="m@x", sender="a@x", recipients=to, digest=digest("m@x", "body")
    )
    attempt = Attempt(
        n=1, t=0, message="m#1", attempt=1, client="outside", server="mta1", listener="frontend", outcome="answered",
        code=250, accepted=to, dot_sent=True,
    )  # fmt: skip
    delivered = Delivered(n=2, t=0, sink="outside", giver="mta1", recipient=who, sender="a@x", digest=arrived)
    return Undelivered((made, attempt, delivered), mailboxes).descriptions


def test_what_arrived_is_no_longer_owed():
    assert account(digest("m@x", "body")) == []
    assert account(digest("m@x", "body"), "wendy@outside.test") == [f"m#1 to {WHO}"]
    assert account(digest("other@x", "other")) == [f"m#1 to {WHO}"]


def test_what_arrived_altered_is_not_waited_for():
    assert account(digest("m@x", "altered")) == []


def test_what_was_reported_is_no_longer_owed():
    assert account(digest("dsn@mta1", "dsn", report="delivery-status", about="m@x"), "a@x") == []


def test_addresses_outside_are_told_apart_by_letter_case_and_mailboxes_are_not():
    both = (WHO, "Victor@outside.test")
    assert account(digest("m@x", "body"), "victor@OUTSIDE.test", both) == ["m#1 to Victor@outside.test"]
    assert account(digest("m@x", "body"), WHO, both, mailboxes=(WHO,)) == []


def test_a_report_about_one_recipient_leaves_the_others_owed():
    both = (WHO, "wendy@outside.test")
    report = digest("dsn@mta1", "dsn", report="delivery-status", about="m@x", failed=("wendy@outside.test",))
    assert account(report, "a@x", both) == [f"m#1 to {WHO}"]
