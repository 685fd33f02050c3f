"""Delivery reports and journal: content, recipients, and that a message is released after its reports (SR-MNT-08, RFC 3461, 3464)."""

import asyncio
import email
import email.policy
import re
from email.message import EmailMessage
from pathlib import Path
from typing import get_args

import pytest

from conformance.reference.config import Journal
from conformance.reference.dsn import RecipientStatus, format_report
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Fate, Message, Recipient
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from tests.reference.hosts import CONTENT, HandClock, add_primary, configured, open_host

HOP = NextHop("outside", "outside", (("127.0.0.1", 9),), ("outside",))
NEVER = Reply(550, "5.7.1", "never")


def octets_of(action: str = "failed", content: bytes = CONTENT, **envelope: str) -> bytes:
    to = Recipient("wendy@second.test", orcpt="rfc822;w@second.test")
    return format_report(
        action, [RecipientStatus(to, "5.7.1", "550 5.7.1 never", "outside"), RecipientStatus(Recipient("x@second.test"), "5.1.1")],
        message_id="id-1", server="mbx1", at=1_800_000_000.0,
        envelope=Envelope("alice@outside.test", (to,), **envelope), content=content,
    )  # fmt: skip


def written(action: str = "failed", **given: str) -> EmailMessage:
    read = email.message_from_bytes(octets_of(action, **given), policy=email.policy.default)
    assert isinstance(read, EmailMessage)
    return read


def test_a_report_has_the_parts_and_fields_of_rfc_3464():
    parsed = written(envid="E-1")
    assert parsed.get_content_type() == "multipart/report"
    assert parsed.get_param("report-type") == "delivery-status"
    assert parsed["Auto-Submitted"] == "auto-replied"
    text, status, returned = parsed.iter_parts()
    assert "wendy@second.test" in text.get_content()
    whole, first, second = status.get_payload()
    assert whole["Reporting-MTA"] == "dns; mbx1"
    assert whole["Original-Envelope-Id"] == "E-1"
    assert first["Final-Recipient"] == "rfc822; wendy@second.test"
    assert (first["Action"], first["Status"]) == ("failed", "5.7.1")
    assert first["Diagnostic-Code"] == "smtp; 550 5.7.1 never"
    assert first["Original-Recipient"] == "rfc822;w@second.test"
    assert first["Remote-MTA"] == "dns; outside"
    assert second["Final-Recipient"] == "rfc822; x@second.test"
    assert (second["Action"], second["Status"]) == ("failed", "5.1.1")
    assert second["Remote-MTA"] is second["Diagnostic-Code"] is second["Original-Recipient"] is None
    assert returned.get_content_type() == "text/rfc822-headers"


def test_the_names_that_the_sender_gave_in_xtext_are_decoded_but_for_what_is_not_printable():
    to = Recipient("wendy@second.test", orcpt="rfc822;wendy+2Bnews+0D@second.test")
    written = format_report(
        "failed", [RecipientStatus(to, "5.1.1")], message_id="id-1", server="mbx1", at=1_800_000_000.0,
        envelope=Envelope("alice@outside.test", (to,), envid="A+3DB+2B3D+0A+7F+20C"), content=CONTENT,
    ).split(b"\r\n")  # fmt: skip
    assert b"Original-Envelope-Id: A=B+3D+0A+7F C" in written
    assert b"Original-Recipient: rfc822;wendy+news+0D@second.test" in written


@pytest.mark.parametrize(
    ("action", "ret", "whole"),
    [
        ("failed", "FULL", True),
        ("failed", "HDRS", False),
        ("failed", "", False),
        ("delivered", "FULL", False),
        ("relayed", "FULL", False),
        ("delayed", "FULL", False),
    ],
)
def test_the_message_is_returned_whole_only_with_a_failure_and_on_request(action: str, ret: str, whole: bool):
    *_, returned = written(action, ret=ret).iter_parts()
    assert (b"hello" in returned.as_bytes()) is whole
    assert b"one@test" in returned.as_bytes()


def report_with_texts(start: str, end: str) -> bytes:
    """Return a report in which each text of another host is this start, a line end, and then `Injected: ` and the text's name."""
    sender, address, orcpt, envid, diagnostic = (
        f"{start}{end}Injected: {name}" for name in ("sender", "address", "orcpt", "envid", "diagnostic")
    )
    to = Recipient(address, orcpt=orcpt)
    return format_report(
        "failed", [RecipientStatus(to, "5.0.0", f"550 {diagnostic}{end}{end}body")], message_id="id-1", server="mbx1", at=0.0,
        envelope=Envelope(sender, (to,), envid=envid), content=b"Subject: x\r\n\r\n",
    )  # fmt: skip


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"], ids=["crlf", "lf", "cr"])
@pytest.mark.parametrize("start", ["x", "\u00fc"], ids=["ascii", "utf-8"])  # addresses that are not ASCII are escaped
def test_untrusted_text_cannot_inject_a_line_into_a_report(start: str, end: str) -> None:
    octets = report_with_texts(start, end)
    for name in (b"sender", b"address", b"orcpt", b"envid", b"diagnostic"):
        assert b"Injected: " + name in octets
    lines, lines_without_ends = (re.split(rb"\r\n|\r|\n", one) for one in (octets, report_with_texts(start, "")))
    assert len(lines) == len(lines_without_ends)


@pytest.mark.parametrize("charset", ["utf-8", "latin-1"])
def test_an_eight_bit_message_is_returned_unchanged(charset: str):
    content = CONTENT.replace(b"hello", "grüße".encode(charset))
    octets = octets_of(content=content, ret="FULL")
    parsed = email.message_from_bytes(octets, policy=email.policy.default)
    *_, returned = parsed.iter_parts()
    assert parsed["Content-Transfer-Encoding"] == returned["Content-Transfer-Encoding"] == "8bit"
    assert octets.count(b"\r\n\r\n" + content + b"\r\n--") == 1


def run(tmp_path: Path, steps, journal: str | None = None) -> None:
    async def main() -> None:
        config = configured("two-servers-one-dag")
        config = config.model_copy(update={"journal": Journal(recipient=journal) if journal else None})
        async with open_host(tmp_path, config) as (host, clock):
            await steps(host, clock)

    asyncio.run(main())


def reports(host: Host, cause: Message) -> list[Message]:
    return [message for message in host.messages.held_as("primary") if message.cause == cause.id]


@pytest.mark.parametrize(
    ("sender", "notify", "expected"),
    [
        ("alice@outside.test", "", 1),
        ("alice@outside.test", "FAILURE,DELAY", 1),
        ("alice@outside.test", "SUCCESS", 0),
        ("alice@outside.test", "NEVER", 0),
        ("", "", 0),
    ],
)
def test_recipients_that_fail_together_are_in_one_report_unless_not_requested(
    tmp_path: Path, sender: str, notify: str, expected: int
):
    addresses, unwanted = ("victor@outside.test", "walter@outside.test"), "xena@outside.test"

    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, *addresses, unwanted, sender=sender)
        recipients = [Recipient(unwanted, "NEVER"), *(Recipient(address, notify) for address in addresses)]
        host.reports.report_failed(message, [(recipient, NEVER) for recipient in recipients], HOP)
        found = reports(host, message)
        assert len(found) == expected
        assert all(one.envelope.reverse_path == "" and one.redundancy_pending for one in found)
        contents = [host.messages.content(one.id).decode() for one in found]
        assert [[to in content for to in (*addresses, unwanted)] for content in contents] == [
            [True, True, False]
        ] * expected

    run(tmp_path, steps)


def test_a_message_is_released_only_when_its_report_has_been_processed(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host)
        host.discards.add_holder(message.id, "mbx2", message.shadow_id)
        host.messages.set_fate(message.id, message.envelope.recipients, "failed")
        host.reports.report_failed(message, [(message.envelope.recipients[0], NEVER)], HOP)
        host.completion.release_if_processed(message.id)
        assert list(host.discards.all_notifications()) == []
        (one,) = reports(host, message)
        host.messages.set_fate(one.id, one.envelope.recipients, "relayed", crossed=True)
        host.completion.release_if_processed(one.id)
        assert [event.shadow_id for event in host.discards.all_notifications()] == [message.shadow_id]

    run(tmp_path, steps)


def test_a_delay_is_reported_once_and_only_on_request(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(
            host, "victor@outside.test", "xena@outside.test", "wendy@second.test", "walter@second.test"
        )
        patient = [Recipient("wendy@second.test"), Recipient("walter@second.test", "FAILURE,SUCCESS")]
        eager, later = Recipient("victor@outside.test", "DELAY"), Recipient("xena@outside.test", "DELAY")
        made = []
        for waited, delayed in (
            (4 * 3600 - 1, [eager]),
            (1, [eager]),
            (3600, [eager]),
            (1, [eager, later]),
            (1, [later]),
        ):
            clock.advance(waited)
            host.reports.report_delayed(message, [*patient, *delayed])
            made.append(len(reports(host, message)))
        assert made == [0, 1, 1, 2, 2]
        named = [
            re.findall(rb"Final-Recipient: rfc822; (.*)\r", host.messages.content(r.id)) for r in reports(host, message)
        ]
        assert sorted(named) == [[b"victor@outside.test"], [b"xena@outside.test"]]

    run(tmp_path, steps)


def test_success_is_reported_by_the_last_server_only(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host)
        wanted = [Recipient("victor@outside.test", "SUCCESS")]
        for fate in set(get_args(Fate)) - {"delivered", "relayed"}:
            host.reports.report_succeeded(message, wanted, fate, HOP)
        assert reports(host, message) == []
        for fate in ("delivered", "relayed"):
            host.reports.report_succeeded(message, wanted, fate, HOP)
        assert len(reports(host, message)) == 2

    run(tmp_path, steps)


def test_a_message_is_journaled_once(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, journal_due=True)
        host.journaling.send_report_if_due(message)
        assert host.messages.get(message.id).journal_due is False
        host.journaling.send_report_if_due(host.messages.get(message.id))
        (one,) = reports(host, message)
        assert [r.address for r in one.envelope.recipients] == ["audit@archive.test"]
        parsed = email.message_from_bytes(host.messages.content(one.id), policy=email.policy.default)
        assert "X-MS-Journal-Report" in parsed
        envelope, attached = parsed.iter_parts()
        assert "Recipient: victor@outside.test" in envelope.get_content()
        assert attached.get_payload()[0]["Message-ID"] == "<one@test>"

    run(tmp_path, steps, journal="audit@archive.test")


def test_the_journal_reports_of_two_servers_about_one_message_are_duplicates_of_each_other(tmp_path: Path):
    async def journal_report(server: str, clock: HandClock, content: bytes = CONTENT) -> Message:
        found: list[Message] = []
        config = configured("two-servers-one-dag", server).model_copy(
            update={"journal": Journal(recipient="a@archive.test")}
        )
        directory = tmp_path / server
        directory.mkdir(exist_ok=True)  # noqa: ASYNC240  # nothing else runs
        async with open_host(directory, config, clock) as (host, _):
            message = add_primary(host, content=content, journal_due=True)
            host.journaling.send_report_if_due(message)
            found = reports(host, message)
        return found[0]

    later = HandClock()
    later.advance(10)
    one, other = (asyncio.run(journal_report(*pair)) for pair in (("mbx1", HandClock()), ("mbx2", later)))
    assert one.message_id != other.message_id
    assert (one.internet_id, one.submitted) == (other.internet_id, other.submitted)
    assert None not in (one.internet_id, one.submitted), "without one of them a message is never a duplicate"
    another = asyncio.run(journal_report("mbx1", HandClock(), CONTENT.replace(b"<one@test>", b"<two@test>")))
    assert another.internet_id != one.internet_id, "it is about another message"


@pytest.mark.parametrize(("journal", "number"), [(None, 0), ("audit@archive.test", 1)])
def test_without_a_journal_nothing_is_reported(tmp_path: Path, journal: str | None, number: int):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, journal_due=True)
        host.journaling.send_report_if_due(message)
        assert len(reports(host, message)) == number

    run(tmp_path, steps, journal)
