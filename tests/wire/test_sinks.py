"""Sinks accept messages, give scripted answers, and record each delivery."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest

from conformance.history.events import Attempt, Command, Content, Delivered, Event, Reply
from conformance.scenarios.steps.breaking import Answer
from conformance.wire.client import Identity
from conformance.wire.content import digest
from conformance.wire.sender import Recipient, Sender, SendResult, Transmission
from conformance.wire.sink_transaction import MAX_CONTENT_LINE
from conformance.wire.sinks import Sink, open_sink
from tests.wire.peers import Peer, World, run

CONTENT = b"Message-ID: <1@x>\r\n\r\n.\xff line\r\nbare\n.\nlf\r\n" + b"y" * 5000 + b"\r\n"


def with_sink(protocol: str, test: Callable[[World, Sink], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        sink = await open_sink("out", protocol, world.recorder, world.links)
        try:
            await world.links.open("mbx1", "out", sink.protocol, sink.address)
            await test(world, sink)
        finally:
            await sink.close()

    run(main)


async def send(world: World, *to: str, sender: str = "a@x", content: bytes = CONTENT) -> SendResult:
    one = Sender(world.links.address("mbx1", "out", "smtp"), session_behind=world.links.session_behind)
    outcome = await one.send(Transmission(sender, tuple(map(Recipient, to)), content))
    await one.quit()
    return outcome


def answer(**fields: Any) -> Answer:
    return Answer.model_validate({"sink": "out", **fields})


@pytest.mark.parametrize("sender", ["a@x", ""])
def test_a_delivery_is_recorded_for_each_recipient_before_the_reply(sender: str) -> None:
    async def test(world: World, sink: Sink) -> None:
        outcome = await send(world, "b@out.test", "c@out.test", sender=sender)
        assert (outcome.code, outcome.session, outcome.dot_sent) == (250, "s1", True)
        assert outcome.accepted == ("b@out.test", "c@out.test")
        delivered = world.events(Delivered)
        assert [(d.sink, d.giver, d.session, d.recipient, d.sender) for d in delivered] == [
            ("out", "mbx1", "s1", "b@out.test", sender),
            ("out", "mbx1", "s1", "c@out.test", sender),
        ]
        assert [d.digest for d in delivered] == [digest(CONTENT)] * 2
        final = next(reply for reply in world.events(Reply) if reply.to == "CONTENT")
        assert delivered[-1].n < final.n

    with_sink("smtp", test)


def test_a_message_of_ten_megabytes_is_accepted() -> None:
    async def test(world: World, sink: Sink) -> None:
        outcome = await send(world, "b@out.test", content=b"\r\n" + (b"z" * 998 + b"\r\n") * 10_000)
        assert outcome.code == 250
        assert world.events(Delivered)[0].digest.size == 10_000_002

    with_sink("smtp", test)


@pytest.mark.parametrize(("at", "accepted"), [("MAIL", ()), ("RCPT", ()), ("DATA", ("b@out.test",))])
def test_a_scripted_refusal_before_the_content_prevents_the_delivery_once(at: str, accepted: tuple[str, ...]) -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.script_answer(answer(at=at, reply="451 4.3.0 later", times=1))
        outcome = await send(world, "b@out.test")
        assert (outcome.code, outcome.enhanced, outcome.accepted, outcome.dot_sent) == (451, "4.3.0", accepted, False)
        assert not world.events(Delivered)
        assert (await send(world, "b@out.test")).code == 250
        assert [d.recipient for d in world.events(Delivered)] == ["b@out.test"]

    with_sink("smtp", test)


def test_a_scripted_answer_at_connect_refuses_clients() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.script_answer(answer(at="connect", reply="421 4.3.2 full"))
        assert [(await send(world, "b@out.test")).code for _ in range(2)] == [421, 421]
        sink.script_answer(answer(at="connect", reply="accept"))
        assert (await send(world, "b@out.test")).code == 250

    with_sink("smtp", test)


def test_an_answer_for_one_recipient_does_not_affect_the_others() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.script_answer(answer(at="RCPT", reply="550 5.1.1 unknown", recipient="NO@out.test"))
        outcome = await send(world, "b@out.test", "no@out.test")
        assert (outcome.code, outcome.accepted, outcome.refused) == (250, ("b@out.test",), ("no@out.test",))
        assert [d.recipient for d in world.events(Delivered)] == ["b@out.test"]
        sink.script_answer(answer(at="RCPT", reply="accept", recipient="b@out.test"))
        assert (await send(world, "no@out.test")).accepted == ()
        sink.script_answer(answer(at="RCPT", reply="accept", recipient="no@OUT.test"))
        assert (await send(world, "no@out.test")).accepted == ("no@out.test",)

    with_sink("smtp", test)


def test_a_message_refused_at_the_dot_is_not_delivered() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.script_answer(answer(at="dot", reply="554 5.6.0 no", times=1))
        outcome = await send(world, "b@out.test")
        assert (outcome.code, outcome.dot_sent) == (554, True)
        assert not world.events(Delivered)
        sink.script_answer(answer(at="dot", reply="451 4.3.0 x"))
        sink.clear_answers()
        assert ((await send(world, "b@out.test")).code, len(world.events(Delivered))) == (250, 1)

    with_sink("smtp", test)


def test_lmtp_answers_for_each_recipient() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.script_answer(answer(at="dot", reply="452 4.2.2 full", recipient="c@x"))
        sink.script_answer(answer(at="RCPT", reply="550 5.1.1 unknown", recipient="no@x"))
        client: Peer
        _, client = await asyncio.get_running_loop().create_connection(
            Peer, *world.links.address("mbx1", "out", "lmtp")
        )
        world.clients.append(client)
        envelope = b"MAIL FROM:<>\r\nRCPT TO:<b@x>\r\nRCPT TO:<no@x>\r\nRCPT TO:<c@x>\r\nDATA\r\n"
        await client.exchange(b"LHLO mbx1\r\n" + envelope, b"354 ")
        await client.exchange(CONTENT.replace(b"\r\n.", b"\r\n..") + b".\r\n" + envelope, b"354 ")
        await client.exchange(b"z" * (MAX_CONTENT_LINE + 1) + b"\r\n.\r\nQUIT\r\n", b"221 ")
        replies = [(r.recipient, r.code) for r in world.events(Reply) if r.to == "CONTENT"]
        assert replies == [("b@x", 250), ("c@x", 452), ("b@x", 500), ("c@x", 500)]
        codes = [line[:3] for line in client.octets.partition(b"354 ")[2].splitlines()[1:]]
        assert codes == [b"250", b"452", b"250", b"250", b"550", b"250", b"354", b"500", b"500", b"221"]
        assert [(d.recipient, d.sender, d.giver) for d in world.events(Delivered)] == [("b@x", "", "mbx1")]
        assert world.events(Delivered)[0].digest.size == len(CONTENT)

    with_sink("lmtp", test)


async def talk(world: World, octets: bytes) -> list[tuple[str, int]]:
    """Say EHLO and these octets to the sink, and QUIT; return what each reply but those to EHLO and QUIT answered."""
    _, client = await asyncio.get_running_loop().create_connection(Peer, *world.links.address("mbx1", "out", "smtp"))
    world.clients.append(client)
    await client.exchange(b"EHLO mbx1\r\n" + octets + b"QUIT\r\n", b"221 ")
    return [(r.to, r.code) for r in world.events(Reply)][2:-1]


def test_a_sink_knows_the_parameters_of_what_it_offers_only() -> None:
    async def test(world: World, sink: Sink) -> None:
        lines = (
            b"MAIL FROM:<a@x> RET=HDRS ENVID=q BODY=8BITMIME\r\nRCPT TO:<b@x> NOTIFY=NEVER ORCPT=rfc822;b@x\r\nRSET\r\n"
        )
        sink.keywords = ()
        assert (await talk(world, b"MAIL FROM:<a@x> SIZE=9\r\n"))[-1] == ("MAIL", 250)  # SIZE is always offered
        for parameter in (b"RET=HDRS", b"ENVID=q", b"BODY=8BITMIME", b"SMTPUTF8"):
            assert (await talk(world, b"MAIL FROM:<a@x> " + parameter + b"\r\n"))[-1] == ("MAIL", 555)
        for parameter in (b"NOTIFY=NEVER", b"ORCPT=rfc822;b@x"):
            refused = await talk(world, b"MAIL FROM:<a@x>\r\nRCPT TO:<b@x> " + parameter + b"\r\n")
            assert refused[-2:] == [("MAIL", 250), ("RCPT", 555)]
        sink.keywords = ("DSN",)
        assert (await talk(world, b"MAIL FROM:<a@x> BODY=8BITMIME\r\n"))[-1] == ("MAIL", 555)
        without_body = lines.replace(b" BODY=8BITMIME", b"")
        assert [code for _, code in (await talk(world, without_body))[-3:]] == [250, 250, 250]
        sink.keywords = ("8BITMIME",)
        assert (await talk(world, b"MAIL FROM:<a@x> BODY=8BITMIME\r\n"))[-1] == ("MAIL", 250)
        assert (await talk(world, b"MAIL FROM:<a@x> RET=HDRS\r\n"))[-1] == ("MAIL", 555)
        sink.keywords = ("SMTPUTF8",)
        assert (await talk(world, b"MAIL FROM:<a@x> SMTPUTF8\r\n"))[-1] == ("MAIL", 250)
        sink.keywords = ("DSN", "8BITMIME")
        assert [code for _, code in (await talk(world, lines))[-3:]] == [250, 250, 250]
        offered = [reply.lines[1:] for reply in world.events(Reply) if reply.to == "EHLO"]
        assert offered[-1] == ("DSN", "8BITMIME", "SIZE 67108864")

    with_sink("smtp", test)


def test_a_sink_takes_chunks_as_they_are() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("CHUNKING", "PIPELINING")
        envelope = b"MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\n"
        chunks = envelope + b"BDAT 7\r\nA: b\r\n\rBDAT 5\r\n\n.\r\n.BDAT 0 LAST\r\n"
        assert await talk(world, chunks) == [
            ("MAIL", 250),
            ("RCPT", 250),
            ("BDAT", 250),
            ("BDAT", 250),
            ("CONTENT", 250),
        ]
        assert world.events(Delivered)[0].digest.sha256 == digest(b"A: b\r\n\r\n.\r\n.").sha256
        await talk(world, envelope + b"BDAT 1\r\nxRSET\r\n" + (envelope + b"BDAT 3 LAST\r\n..y") * 2)
        assert [event.digest.sha256 for event in world.events(Delivered)[1:]] == [digest(b"..y").sha256] * 2

    with_sink("smtp", test)


@pytest.mark.parametrize(
    ("octets", "codes"),
    [
        (b"BDAT 6 LAST\r\nNOOP\r\nRSET\r\n", [503, 250]),
        (
            b"MAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nBDAT 1\r\nxDATA\r\nRSET\r\nBDAT 1 LAST\r\nx",
            [250, 250, 250, 503, 250, 503],
        ),
        (b"BDAT many LAST\r\n", [501]),
    ],
    ids=["without a recipient", "DATA amid chunks, and a chunk after RSET", "malformed"],
)
def test_a_chunk_out_of_place_is_refused_and_read_and_a_malformed_bdat_is_refused(
    octets: bytes, codes: list[int]
) -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("CHUNKING",)
        assert [code for _, code in await talk(world, octets)] == codes
        assert not world.events(Delivered)

    with_sink("smtp", test)


@pytest.mark.parametrize("envelope", [b"", b"MAIL FROM:<a@x>\r\n"], ids=["no MAIL", "no RCPT"])
@pytest.mark.parametrize("protocol", ["smtp", "lmtp"])
def test_content_without_a_recipient_is_refused_with_one_reply(protocol: str, envelope: bytes) -> None:
    async def test(_: World, sink: Sink) -> None:
        sink.keywords = ("CHUNKING",)
        reader, writer = await asyncio.open_connection(*sink.address)
        hello = b"LHLO" if protocol == "lmtp" else b"EHLO"
        writer.write(hello + b" x\r\n" + envelope + b"BDAT 6 LAST\r\nNOOP\r\nDATA\r\nBDAT 0\r\nQUIT\r\n")
        lines = (await reader.read()).splitlines()
        writer.close()
        assert [line[:3] for line in lines[-4:]] == [b"503", b"503", b"503", b"221"]
        assert {line[:3] for line in lines[:-4]} == {b"220", b"250"}
        assert b"" not in lines

    with_sink(protocol, test)


@pytest.mark.parametrize("chunks", [None, 1000])
def test_a_transmission_abandoned_before_its_end_is_not_delivered(chunks: int | None) -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("CHUNKING",)
        one = Sender(world.links.address("mbx1", "out", "smtp"))
        outcome = await one.send(Transmission("a@x", (Recipient("b@x"),), CONTENT, abandon="before-dot", chunks=chunks))
        assert outcome.outcome == "abandoned"
        assert world.events(Command)[-1].verb == ("DATA" if chunks is None else "BDAT")
        assert (await send(world, "c@x")).code == 250
        assert [d.recipient for d in world.events(Delivered)] == ["c@x"]

    with_sink("smtp", test)


def test_an_exception_in_a_sink_is_raised_when_it_closes() -> None:
    async def test(world: World, sink: Sink) -> None:
        def broken(event: Event) -> None:
            if getattr(event, "sink", None) == "out":
                raise LookupError("no room")

        world.recorder.subscribe(broken)
        assert (await send(world, "b@x")).code == 451
        with pytest.raises(LookupError, match="no room"):
            await sink.close()

    with_sink("smtp", test)


def test_an_attempt_has_every_field_of_a_send_result() -> None:
    assert set(SendResult.__slots__) <= {field.name for field in fields(Attempt)}


def test_a_sink_of_another_protocol_is_refused() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="not 'pop3'"):
            await open_sink("out", "pop3", world.recorder, world.links)

    run(test)


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_what_is_said_to_a_sink_within_tls_is_recorded_under_the_name_of_the_session() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("STARTTLS", "DSN")
        sink.secured_keywords = ()
        one = Sender(
            world.links.address("mbx1", "out", "smtp"),
            Identity(tls=unverified()),
            session_behind=world.links.session_behind,
        )
        outcome = await one.send(Transmission("a@x", (Recipient("b@out.test"),), CONTENT))
        await one.quit()
        assert (outcome.code, outcome.session) == (250, "s1")
        said = ["EHLO", "STARTTLS", "EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
        assert [(c.session, c.verb) for c in world.events(Command)] == [("s1", verb) for verb in said]
        offered = [reply.lines[1:] for reply in world.events(Reply) if reply.to == "EHLO"]
        assert ["STARTTLS" in lines for lines in offered] == ["DSN" in lines for lines in offered] == [True, False]
        assert {reply.session for reply in world.events(Reply)} == {"s1"}
        assert [(c.session, c.digest) for c in world.events(Content)] == [("s1", digest(CONTENT))]
        assert [d.session for d in world.events(Delivered)] == ["s1"]

    with_sink("smtp", test)


def test_a_sink_drops_what_comes_in_plaintext_behind_starttls() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("STARTTLS",)
        reader, writer = await asyncio.open_connection(*sink.address)
        assert (await reader.readline())[:3] == b"220"
        writer.write(b"EHLO x\r\n")
        while (await reader.readline())[3:4] == b"-":
            pass
        writer.write(b"STARTTLS\r\nNOOP\r\n")
        assert (await reader.readline())[:3] == b"220"
        await writer.start_tls(unverified())
        writer.write(b"QUIT\r\n")
        assert [line[:3] for line in (await reader.read()).splitlines()] == [b"221"]
        writer.close()

    with_sink("smtp", test)


def test_a_sink_offers_within_tls_only_what_it_offers_there_also_before_ehlo() -> None:
    async def test(world: World, sink: Sink) -> None:
        sink.keywords = ("STARTTLS", "CHUNKING")
        sink.secured_keywords = ()
        reader, writer = await asyncio.open_connection(*sink.address)
        writer.write(b"EHLO x\r\nSTARTTLS\r\n")
        while not (await reader.readline()).startswith(b"220 2.0.0"):
            pass
        await writer.start_tls(unverified())
        writer.write(b"STARTTLS\r\nBDAT 0 LAST\r\nQUIT\r\n")
        assert [line[:3] for line in (await reader.read()).splitlines()] == [b"500", b"500", b"221"]
        writer.close()

    with_sink("smtp", test)
