"""Sinks: the harness's servers that receive mail, by SMTP for outside domains and by LMTP for mailboxes.

A sink accepts everything, except where the scenario has given it an answer, and records each delivery. The answer has a
place, which is `connect`, `STARTTLS`, `MAIL`, `RCPT`, `DATA` or `dot`, is for one recipient or for all, and may be
limited to some uses (`times`). A *session* is the link's, through which a client reaches the sink; it has a name (`s1`)
in the history.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.history.events import Delivered
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Answer
from conformance.wire.content import digest
from conformance.wire.link import Address, RecordedSession
from conformance.wire.secured_record import SecuredRecord
from conformance.wire.sink_session import OFFERED, SinkSession
from conformance.wire.sockets import BACKLOG


class SessionFinder(Protocol):
    """Finds the session to which a connection belongs (implemented by `Links`)."""

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return the latest session with a connection from `port` to the port `dialled`, None if there was none."""
        ...


@dataclass(slots=True)
class _ScriptedAnswer:
    """An answer, and how often it is still to be given; None is without end."""

    answer: Answer
    remaining: int | None


class ScriptedAnswers:
    """The answers that a scenario has given a sink; the latest one that matches is used, as often as it says.

    Its place is `connect`, `STARTTLS`, `MAIL`, `RCPT`, `DATA` or `dot`; it is for one recipient or, without one, for all.
    """

    def __init__(self) -> None:
        self._answers: list[_ScriptedAnswer] = []

    def add(self, answer: Answer) -> None:
        """Add an answer, which comes before the earlier ones that match.

        The reply `accept` is not added: it removes the earlier answers at its place. If it names a recipient, it removes only
        those for this recipient, in any case of letters.
        """
        if answer.reply == "accept":
            recipient = answer.recipient and answer.recipient.lower()
            self._answers = [
                scripted
                for scripted in self._answers
                if scripted.answer.at != answer.at
                or recipient not in (None, scripted.answer.recipient and scripted.answer.recipient.lower())
            ]
        else:
            self._answers.append(_ScriptedAnswer(answer, answer.times))

    def clear(self) -> None:
        """Remove every answer."""
        self._answers.clear()

    def take_reply(self, at: str, recipient: str | None = None) -> str | None:
        """Return the reply of the latest answer that matches a place and has uses left, and count a use; None if none matches.

        An answer for one recipient matches only that `recipient`, in any case of letters.
        """
        for scripted in reversed(self._answers):
            only_for = scripted.answer.recipient
            matches = only_for is None or (recipient is not None and only_for.lower() == recipient.lower())
            if scripted.answer.at == at and matches and scripted.remaining != 0:
                if scripted.remaining is not None:
                    scripted.remaining -= 1
                return scripted.answer.reply
        return None


class Sink:
    """One sink; `name` is its name as a party of the cell.

    `sessions` finds the recorded session to which a connection belongs, under whose name the sink records what it did.
    `on_delivery`, if set, is called with the sender, the recipients and the content of each message that is accepted.
    """

    def __init__(
        self, name: str, protocol: Literal["smtp", "lmtp"], recorder: Recorder, sessions: SessionFinder
    ) -> None:
        self.name = name
        self.protocol = protocol
        self.keywords: tuple[str, ...] = OFFERED
        """The extensions that its replies to EHLO offer, beside SIZE."""
        self.secured_keywords: tuple[str, ...] = OFFERED
        """Those that it offers within TLS."""
        self._recorder = recorder
        self._sessions = sessions
        self._answers = ScriptedAnswers()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Transport] = set()
        self._failures: list[Exception] = []
        self._address: Address | None = None
        self.on_delivery: Callable[[str, list[str], bytes], None] | None = None

    @property
    def address(self) -> Address:
        """Where it listens. Raises RuntimeError if it was never opened."""
        if self._address is None:
            raise RuntimeError(f"the sink {self.name} is not open")
        return self._address

    async def open(self) -> None:
        """Listen on a free loopback port. Raises OSError if there is none."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SinkSession(self), "127.0.0.1", 0, backlog=BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self._address = (host, port)

    async def close(self) -> None:
        """Stop listening and abort every connection; return once the loop has noticed that.

        Raises the first exception that was noted while delivering, and forgets all.
        """
        if self._server is not None:
            self._server.close()
        for transport in tuple(self._connections):
            transport.abort()
        await asyncio.sleep(0)
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    def note_failure(self, error: Exception) -> None:
        """Keep an exception of `deliver`, to be raised by `close`."""
        self._failures.append(error)

    def script_answer(self, answer: Answer) -> None:
        """Give a scenario's answer from now on; with the reply `accept` remove earlier ones (see `ScriptedAnswers.add`)."""
        self._answers.add(answer)

    def clear_answers(self) -> None:
        """Remove every scripted answer, so that the sink accepts everything again."""
        self._answers.clear()

    def connection_opened(self, transport: asyncio.Transport) -> None:
        """Note an open connection, to be aborted by `close`."""
        self._connections.add(transport)

    def connection_closed(self, transport: asyncio.Transport) -> None:
        """Forget a connection."""
        self._connections.discard(transport)

    def deliver(self, port: int, sender: str, recipients: list[str], content: bytes) -> list[str]:
        """Accept or refuse a message from the client at a port, and record the delivery for each accepted recipient.

        Return one reply; with LMTP one for each recipient, in their order. A scripted answer at `dot` decides, if there is
        one. With SMTP one answer decides about all recipients: the latest for all, else that for the first recipient who has one.
        The recorded session that came from `port` says which party delivers (`giver`). `on_delivery` is called before the
        recording, if a recipient was accepted.
        """
        summary = digest(content)
        replies = []
        accepted = []
        for recipient in recipients:
            refusal = self._answers.take_reply("dot", recipient) if self.protocol == "lmtp" else None
            replies.append(refusal or f"250 2.1.5 <{recipient}> delivered")
            if refusal is None or refusal.startswith("2"):
                accepted.append(recipient)
        if self.protocol == "smtp":
            reply = self._answers.take_reply("dot") or next(
                (scripted for to in recipients if (scripted := self._answers.take_reply("dot", to))), None
            )
            replies = [reply or "250 2.0.0 delivered"]
            accepted = recipients if replies[0].startswith("2") else []
        if accepted and self.on_delivery is not None:
            self.on_delivery(sender, accepted, content)
        session = self._sessions.session_behind(port, self.address[1])
        for recipient in accepted:
            self._recorder.record(
                Delivered,
                sink=self.name,
                giver=session.client if session else "",
                session=session.session if session else None,
                recipient=recipient,
                sender=sender,
                digest=summary,
            )
        return replies

    def record_secured(self, port: int) -> SecuredRecord | None:
        """Return a new record for what is said within TLS to the client at a port; None where its session has no name."""
        session = self._sessions.session_behind(port, self.address[1])
        return SecuredRecord(self._recorder, session.session) if session is not None else None

    def take_scripted_reply(self, at: str, recipient: str | None = None) -> str | None:
        """Return the scripted reply for `connect`, `STARTTLS`, `MAIL`, `RCPT` or `DATA`, and count a use; None for none."""
        return self._answers.take_reply(at, recipient)


async def open_sink(name: str, protocol: str, recorder: Recorder, sessions: SessionFinder) -> Sink:
    """Return a sink that listens. Raises ValueError for a protocol other than `smtp` and `lmtp`, OSError if no port is free."""
    if protocol not in ("smtp", "lmtp"):
        raise ValueError(f"a sink speaks smtp or lmtp, not {protocol!r}")
    sink = Sink(name, "lmtp" if protocol == "lmtp" else "smtp", recorder, sessions)
    await sink.open()
    return sink
