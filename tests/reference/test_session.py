"""A session of a listener: the reply to RCPT."""

from pathlib import Path

import pytest

from conformance.reference.host import Host
from tests.reference.hosts import HandClock, open_session, run_with_host, run_with_hub

COPY = b"XSHADOWREQUEST mbx2 db-1\r\nMAIL FROM:<a@outside.test> XSHADOW=db-1-1\r\n"
SHADOWED = b"XSHADOW hub2 db-1\r\nMAIL FROM:<a@outside.test> XSHADOW=db-1-1\r\n"


async def last_reply(host: Host, lines: bytes) -> bytes:
    """Return the last reply to these lines in a session at the transport listener."""
    async with open_session(host, "transport") as (reader, writer):
        writer.write(lines + b"QUIT\r\n")
        return (await reader.read()).splitlines()[-2]


@pytest.mark.parametrize(
    ("before", "reply"),
    [(COPY, b"250"), (b"MAIL FROM:<a@outside.test>\r\n", b"550"), (COPY + b"RSET\r\nMAIL FROM:<>\r\n", b"550")],
    ids=["copy", "mail", "mail-after-a-copy"],
)
def test_an_unknown_mailbox_is_accepted_as_a_recipient_of_a_copy_and_not_of_mail(
    tmp_path: Path, before: bytes, reply: bytes
):
    async def steps(host: Host, clock: HandClock) -> None:
        said = b"EHLO mbx2\r\n" + before + b"RCPT TO:<%s@corp.test>\r\n"
        assert (await last_reply(host, said % b"unknown"))[:3] == reply
        assert (await last_reply(host, said % b"bob"))[:3] == b"250"

    run_with_host(tmp_path, steps)


def test_a_2010_hub_refuses_an_unknown_mailbox_of_mail_whose_sender_keeps_the_shadow(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        said = b"EHLO hub2\r\n" + SHADOWED + b"RCPT TO:<%s@corp.test>\r\n"
        assert (await last_reply(host, said % b"unknown"))[:3] == b"550"
        assert (await last_reply(host, said % b"bob"))[:3] == b"250"

    run_with_hub(tmp_path, steps)
