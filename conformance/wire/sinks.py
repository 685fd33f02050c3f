"""Sinks: the servers at the end of the road, SMTP for outside domains and LMTP for mailboxes, on aiosmtpd.

A sink takes everything, unless it was told to answer otherwise, and records what it took for whom.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from conformance.history.events import Delivered
from conformance.history.recorder import Recorder
from conformance.lean_names import Lean
from conformance.lean_smtp import LeanSMTP
from conformance.scenarios.steps.breaking import Answer
from conformance.wire.content import digest
from conformance.wire.link import Address, Origin
from conformance.wire.sockets import BACKLOG, port_of

PATIENCE = 7 * 86400.0
"""Seconds after which an idle client is left: longer than anything under test waits (its own limits are tested)."""

LARGEST = 64 * 1024 * 1024
"""Octets of the largest message that a sink takes: above any MaxMessageSize of a node."""

_LINE = 4096


class Registry(Protocol):
    """Who knows which session a connection belongs to (conformance.wire.links.Links)."""

    def origin(self, port: int, dialled: int) -> Origin | None:
        """Return who is behind a connection, by the port it comes from and the port it dialled."""
        ...


@dataclass(slots=True)
class _Scripted:
    answer: Answer
    left: int | None

    def take(self) -> str:
        if self.left is not None:
            self.left -= 1
        return self.answer.reply


class Script:
    """The answers that a sink was told to give; the latest that fits counts, until it is used up."""

    def __init__(self) -> None:
        self._answers: list[_Scripted] = []

    def add(self, answer: Answer) -> None:
        """Take an answer; `accept` ends the earlier ones at its place (for its recipient, where it names one)."""
        if answer.reply == "accept":
            self._answers = [
                known
                for known in self._answers
                if known.answer.at != answer.at or answer.recipient not in (None, known.answer.recipient)
            ]
        else:
            self._answers.append(_Scripted(answer, answer.times))

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()

    def due(self, at: str, recipient: str | None = None) -> str | None:
        """Return the answer that is to be given now, and count it."""
        for known in reversed(self._answers):
            wanted = known.answer.recipient
            fits = wanted is None or (recipient is not None and wanted.lower() == recipient.lower())
            if known.answer.at == at and fits and known.left != 0:
                return known.take()
        return None


class Sink:
    """One sink: its name as a party, its address, and the answers it was told to give."""

    def __init__(self, name: str, protocol: Literal["smtp", "lmtp"], recorder: Recorder, registry: Registry) -> None:
        self.name = name
        self.protocol = protocol
        self._recorder = recorder
        self._registry = registry
        self._script = Script()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.BaseTransport] = set()
        self._failures: list[Exception] = []
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        """Where it listens. Raises RuntimeError when it was never open."""
        if self._address is None:
            raise RuntimeError(f"the sink {self.name} is not open")
        return self._address

    async def open(self, duration: Callable[[float], float] = lambda seconds: seconds) -> None:
        """Listen on a free loopback port; `duration` turns documented seconds into the loop's."""
        loop = asyncio.get_running_loop()
        timeout = duration(PATIENCE)
        self._server = await loop.create_server(lambda: self._protocol(timeout), "127.0.0.1", 0, backlog=BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self._address = (host, port)

    async def close(self) -> None:
        """Stop listening and leave every client. Raises the first exception that a session met, if there was one."""
        if self._server is not None:
            self._server.close()
        for transport in tuple(self._connections):
            if isinstance(transport, asyncio.Transport):
                transport.abort()
        await asyncio.sleep(0)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    def failed(self, error: Exception) -> None:
        """Keep an exception of a session until the sink is closed."""
        self._failures.append(error)

    def answer(self, answer: Answer) -> None:
        """Answer as told from now on."""
        self._script.add(answer)

    def accept_all(self) -> None:
        """Take everything again."""
        self._script.clear()

    def _protocol(self, timeout: float) -> asyncio.Protocol:
        refusal = self._script.due("connect")
        if refusal is not None:
            return _Refusing(refusal, self._connections)
        handler = _Handler(self)
        door = _Lmtp if self.protocol == "lmtp" else _Smtp
        protocol: asyncio.Protocol = door(
            handler,
            script=self._script,
            connections=self._connections,
            data_size_limit=LARGEST,
            hostname=f"{self.name}.test",
            ident="sink",
            timeout=timeout,
            loop=asyncio.get_running_loop(),
        )
        return protocol

    def take(self, session: Session, envelope: Envelope) -> str:
        """Decide about a message, for each recipient; return the replies (one, or for LMTP one each)."""
        content = envelope.original_content or b""
        sender = "" if envelope.mail_from in (None, "<>") else str(envelope.mail_from)
        summary = digest(content)
        replies = []
        accepted = []
        for recipient in envelope.rcpt_tos:
            refusal = self._script.due("dot", recipient) if self.protocol == "lmtp" else None
            replies.append(refusal or f"250 2.1.5 <{recipient}> delivered")
            if refusal is None or refusal.startswith("2"):
                accepted.append(recipient)
        if self.protocol == "smtp":
            whole = self._script.due("dot") or next(
                (reply for to in envelope.rcpt_tos if (reply := self._script.due("dot", to))), None
            )
            replies = [whole or "250 2.0.0 delivered"]
            accepted = envelope.rcpt_tos if replies[0].startswith("2") else []
        origin = self._registry.origin(port_of(session.peer), self.address[1])
        for recipient in accepted:
            self._recorder.record(
                Delivered,
                sink=self.name,
                giver=origin.client if origin else "",
                session=origin.session if origin else None,
                recipient=recipient,
                sender=sender,
                digest=summary,
            )
        return "\r\n".join(replies)

    def scripted(self, at: str, recipient: str | None = None) -> str | None:
        """Return what to answer instead of taking it, if anything."""
        return self._script.due(at, recipient)


async def open_sink(
    name: str,
    protocol: str,
    recorder: Recorder,
    registry: Registry,
    *,
    duration: Callable[[float], float] = lambda seconds: seconds,
) -> Sink:
    """Open a sink. Raises ValueError for a protocol other than `smtp` and `lmtp`, OSError when no port is free."""
    if protocol not in ("smtp", "lmtp"):
        raise ValueError(f"a sink speaks smtp or lmtp, not {protocol!r}")
    sink = Sink(name, "lmtp" if protocol == "lmtp" else "smtp", recorder, registry)
    await sink.open(duration)
    return sink


class _Refusing(asyncio.Protocol):
    """A client that is turned away at the door."""

    def __init__(self, reply: str, connections: set[asyncio.BaseTransport]) -> None:
        self._reply = reply
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(transport)
        transport.write(self._reply.encode("ascii", "backslashreplace") + b"\r\n")
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._connections.discard(self._transport)


class _Handler(Lean):
    """What aiosmtpd asks about a session."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def handle_EHLO(  # noqa: N802  # aiosmtpd finds its hooks by name
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        return [*responses[:-1], "250-PIPELINING", "250 ENHANCEDSTATUSCODES"]

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (refusal := self._sink.scripted("MAIL")) is not None:
            return refusal
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (refusal := self._sink.scripted("RCPT", address)) is not None:
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        return self._sink.take(session, envelope)

    async def handle_exception(self, error: Exception) -> str:
        self._sink.failed(error)
        return "451 4.3.0 the sink itself failed"


class _Smtp(LeanSMTP):
    """What our sinks do otherwise than aiosmtpd: long lines, an answer at DATA, no complaint when clients leave."""

    line_length_limit = 1024 * 1024
    command_size_limit = _LINE

    def __init__(
        self, handler: _Handler, *, script: Script, connections: set[asyncio.BaseTransport], **options: Any
    ) -> None:
        super().__init__(handler, **options)
        self.command_size_limits = defaultdict(lambda: _LINE)
        self._script = script
        self._connections = connections
        self._mine: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._mine = transport
        self._connections.add(transport)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._mine is not None:
            self._connections.discard(self._mine)
        super().connection_lost(error)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        """Answer DATA as told, once there are recipients to refuse it for."""
        assert self.envelope is not None
        if self.envelope.rcpt_tos and not arg and (refusal := self._script.due("DATA")) is not None:
            await self.push(refusal)
            return
        await super().smtp_DATA(arg)


class _Lmtp(_Smtp, LMTP):
    """The same by LMTP (RFC 2033)."""
