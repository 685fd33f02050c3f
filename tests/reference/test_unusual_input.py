"""Legal but unusual input: long and non-ASCII Message-IDs, quoted addresses, refused chunks, foreign replies, late dates."""

import json
from pathlib import Path

import pytest

from conformance.reference.config import ConfigurationError, Journal, parse_configuration
from conformance.reference.headers import format_date
from conformance.reference.host import Host
from conformance.reference.replies import MAX_LINE, Reply, reply_line
from tests.reference.hosts import CONTENT, HandClock, add_primary, open_session, run_with_host
from tests.reference.test_config import CONTRACT_2, document


async def talk(host: Host, *commands: bytes) -> list[bytes]:
    """Send commands in one burst to the frontend listener of a host, and return the lines that it says until it closes."""
    host.delivery.start_processing = lambda message: None  # type: ignore[method-assign]  # what is stored stays
    async with open_session(host, "frontend") as (reader, writer):
        writer.write(b"\r\n".join([b"EHLO client.test", *commands, b"QUIT", b""]))
        return (await reader.read()).split(b"\r\n")


ENVELOPE = (b"MAIL FROM:<alice@outside.test>", b"RCPT TO:<victor@outside.test>")


@pytest.mark.parametrize("internet_id", ["\u00e9ne@test", "x" * 800 + "@test"], ids=["not ASCII", "long"])
def test_a_message_with_an_odd_message_id_is_acknowledged_in_a_short_line_of_ascii(
    tmp_path: Path, internet_id: str
) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        content = CONTENT.replace(b"one@test", internet_id.encode()).rstrip()
        said = await talk(host, *ENVELOPE, b"DATA", content, b".")
        (reply,) = [line for line in said if line.endswith(b"Queued mail for delivery")]
        assert reply.startswith(b"250 2.6.0 ")
        assert len(reply) <= MAX_LINE
        assert reply.isascii()
        assert len(list(host.messages.held_as("primary"))) == 1

    run_with_host(tmp_path, steps, ShadowRedundancyEnabled=False)


def test_a_long_unknown_command_is_refused_in_a_short_line(tmp_path: Path) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        said = await talk(host, b"X" * 500)
        assert [line for line in said if line.startswith(b"500")]
        assert max(map(len, said)) <= MAX_LINE

    run_with_host(tmp_path, steps)


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (Reply(250, "2.0.0", "stored\nin two copies"), "250 2.0.0 stored in two copies"),
        (Reply(250, "2.0.0", "gespeichert f\u00fcr Bob"), "250 2.0.0 gespeichert f?r Bob"),
        (Reply(250, "", "ok"), "250 2.0.0 ok"),
        (Reply(452, "4.2.2", "x" * 600), "452 4.2.2 " + "x" * (MAX_LINE - 10)),
    ],
)
def test_a_reply_of_another_server_becomes_one_line_that_can_be_sent(reply: Reply, line: str) -> None:
    assert reply_line(reply) == line


def test_what_comes_behind_a_chunk_that_was_too_much_is_dropped_until_the_transaction_ends(tmp_path: Path) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        chunk = CONTENT + b"x" * 800
        sized = b"BDAT %d\r\n%s" % (len(chunk), chunk)
        said = await talk(
            host, *ENVELOPE, sized + sized + b"BDAT 12 LAST\r\nlast chunk\r\nDATA", b"RSET", *ENVELOPE,
            b"BDAT %d LAST\r\n%sNOOP" % (len(CONTENT), CONTENT),
        )  # fmt: skip
        first = said.index(b"250 2.0.0 %d octets" % len(chunk))
        assert [line[:3] for line in said[first : first + 4]] == [b"250", b"552", b"503", b"503"]
        (kept,) = host.messages.held_as("primary")
        assert host.messages.content(kept.id).endswith(CONTENT)
        assert b"xx" not in host.messages.content(kept.id)

    run_with_host(tmp_path, steps, ShadowRedundancyEnabled=False, MaxMessageSize=1024)


def test_a_quoted_local_part_with_a_bracket_stays_as_given(tmp_path: Path) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        said = await talk(
            host, b'MAIL FROM:<"c>d"@outside.test> RET=HDRS', b'RCPT TO:<"a>b"@outside.test> NOTIFY=NEVER', b"DATA",
            CONTENT.rstrip(), b".",
        )  # fmt: skip
        (kept,) = host.messages.held_as("primary")
        assert kept.envelope.reverse_path == '"c>d"@outside.test', said
        assert [to.address for to in kept.envelope.recipients] == ['"a>b"@outside.test']
        assert (kept.envelope.ret, kept.envelope.recipients[0].notify) == ("HDRS", "NEVER")

    run_with_host(tmp_path, steps, ShadowRedundancyEnabled=False)


def test_a_line_with_the_longest_orcpt_is_taken(tmp_path: Path) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        orcpt = b"rfc822;" + b"o" * 493
        assert len(orcpt) == 500, "RFC 3461 4.2 allows no more"
        said = await talk(host, ENVELOPE[0], ENVELOPE[1] + b" NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=" + orcpt)
        assert not [line for line in said if line[:1] == b"5"], said
        assert said[-3][:3] == b"250"

    run_with_host(tmp_path, steps)


def test_a_message_dated_behind_the_last_year_is_journaled_for_a_recipient_in_utf8(tmp_path: Path) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        host.delivery.start_processing = lambda message: None  # type: ignore[method-assign]
        recipient = "j\u00fcrnal@outside.test"
        host.config = host.config.model_copy(update={"journal": Journal(recipient=recipient)})
        late = CONTENT.replace(b"Sat, 21 Nov 2026 10:00:00 +0000", b"Fri, 31 Dec 9999 23:59:59 -1400")
        host.journaling.send_report_if_due(add_primary(host, content=late, journal_due=True))
        (report,) = [one for one in host.messages.held_as("primary") if not one.envelope.reverse_path]
        assert (report.envelope.recipients[0].address, report.envelope.smtputf8) == (recipient, True)
        assert b"\r\nDate: Fri, 31 Dec 9999 23:59:59 +0000\r\n" in host.messages.content(report.id)

    run_with_host(tmp_path, steps)


def test_a_date_behind_the_last_year_becomes_its_last_second() -> None:
    last = 253_402_300_799.0
    dates = [format_date(at) for at in (last - 1, last, last + 1, 1e12)]
    assert dates == ["Fri, 31 Dec 9999 23:59:58 +0000", *["Fri, 31 Dec 9999 23:59:59 +0000"] * 3]


def test_a_scale_above_all_floats_is_refused_by_name() -> None:
    assert parse_configuration(json.dumps(document() | CONTRACT_2 | {"scale": 10**308})).scale == 1e308
    with pytest.raises(ConfigurationError, match=r"^scale: "):
        parse_configuration(json.dumps(document() | CONTRACT_2 | {"scale": 10**400}))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_unknown_key_with_a_line_end_is_refused_in_one_line(end: str) -> None:
    with pytest.raises(ConfigurationError, match="a b: ") as refused:
        parse_configuration(json.dumps(document() | {f"a{end}b": 1}))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["MAILHELPER", "HELPER", "HELP", "SIZE", "mbx1"])
def test_the_reply_to_ehlo_begins_with_the_name_also_if_it_contains_a_keyword(tmp_path: Path, name: str) -> None:
    async def steps(host: Host, clock: HandClock) -> None:
        host.config = host.config.model_copy(update={"name": name})
        said = await talk(host)
        assert said[1] == b"250-" + name.encode()
        assert b"250-HELP" not in said[2:]
        assert b"250 HELP" not in said[2:]

    run_with_host(tmp_path, steps)
