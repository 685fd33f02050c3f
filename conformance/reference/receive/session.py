"""One session of a listener: aiosmtpd's SMTP and LMTP, with enhanced status codes, limits, DSN and the shadow verbs."""

import asyncio
import re
from typing import Literal

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Session, syntax
from aiosmtpd.smtp import Envelope as Transaction

from conformance.reference.boundary import inside, shadows_by_receiver
from conformance.reference.config import Listener, Peer
from conformance.reference.message import Recipient
from conformance.reference.receive.acceptance import Acceptance, envelope_of
from conformance.reference.replies import Reply, with_enhanced
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardEvent

Door = Literal["frontend", "transport", "delivery"]

SHADOW_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_MOST = re.compile(r"[1-9][0-9]{0,5}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")
_OURS = frozenset({"RET", "ENVID", "XSHADOW"})
NOT_OFFERED = "502 5.5.1 command not offered"
_MALFORMED = "501 5.5.4 malformed arguments"
_OUT_OF_ORDER = "503 5.5.1 out of order"
_FORBIDDEN = "550 5.7.1 not allowed"


class Receiver(SMTP):
    """A session; idle for too long or open for too long it ends with 421 4.4.2 (SR-TMO-06, SR-TMO-07)."""

    shadow_keyword = "XSHADOWREQUEST"
    """What a peer that may use the shadow verbs is offered in the reply to EHLO."""

    def __init__(
        self,
        door: Door,
        limits: Listener,
        acceptance: Acceptance,
        discards: DiscardStatus,
        manager: ShadowRedundancyManager,
        sessions: "set[Receiver]",
    ) -> None:
        self._acceptance = acceptance
        self._discards = discards
        self._manager = manager
        self._host = acceptance.host
        self._door = door
        self._limits = limits
        self._sessions = sessions
        self._age: asyncio.TimerHandle | None = None
        self._working = False
        self._greeting = False
        self._named: tuple[str, str] | None = None
        self._shadow_id: str | None = None
        self._mail: dict[str, str] = {}
        self._recipients: list[Recipient] = []
        self._telling: list[DiscardEvent] = []
        super().__init__(
            _Hooks(),
            data_size_limit=self._host.transport.MaxMessageSize,
            hostname=self._host.config.name,
            ident="transport",
            timeout=limits.connection_inactivity_timeout,
            loop=asyncio.get_running_loop(),
        )

    # the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with a clock for the session's age."""
        super().connection_made(transport)
        self._sessions.add(self)
        self._ends = self.loop.time() + self._limits.connection_timeout
        self._age = self.loop.call_at(self._ends, self._timeout_cb)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._sessions.discard(self)
        if self._age is not None:
            self._age.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Note that the client is not idle."""
        if not self._working:
            self._reset_timeout()
        super().data_received(data)

    def _timeout_cb(self) -> None:
        if self.transport is not None:
            self.transport.write(b"421 4.4.2 connection timed out\r\n")
            self.transport.close()

    def abort(self) -> None:
        """End at once, as a killed process would."""
        if self.transport is not None:
            self.transport.abort()

    async def push(self, status: str | bytes) -> None:
        """Send a reply line, with an enhanced status code."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        await super().push(text if self._greeting or text[:4] == "220 " else with_enhanced(text))

    async def smtp_EHLO(self, arg: str) -> None:
        """EHLO: the one positive reply without an enhanced status code (RFC 2034 4)."""
        self._greeting = True
        try:
            await SMTP.smtp_EHLO(self, arg)
        finally:
            self._greeting = False

    @property
    def _peer(self) -> Peer | None:
        if self._door != "transport" or self.session is None or not self._limits.externally_secured:
            return None
        return self._host.config.peer_named.get((self.session.host_name or "").casefold())

    @property
    def _may_shadow(self) -> bool:
        """Whether XSHADOWREQUEST is offered: to a 2013 or later server of our boundary (SR-WIR-01)."""
        peer = self._peer
        return (
            peer is not None
            and self._host.transport.ShadowRedundancyEnabled
            and peer.role == "mailbox"
            and shadows_by_receiver(peer.generation)
            and inside(self._host.config, peer)
            and peer.accept_xshadow
        )

    # commands

    def greeted(self, name: str, responses: list[str]) -> list[str]:
        """Return the lines of the reply to EHLO or LHLO: what this listener offers to this peer."""
        self.session.host_name = name
        self.heard()
        offered = [line for line in responses if "HELP" not in line and "AUTH" not in line]
        extra = ["PIPELINING", "ENHANCEDSTATUSCODES"] + ([] if self._door == "delivery" else ["DSN"])
        extra += [self.shadow_keyword] if self._may_shadow else []
        lines = [*(line[4:] for line in offered), *extra]
        return [f"250-{line}" for line in lines[:-1]] + [f"250 {lines[-1]}"]

    async def smtp_MAIL(self, arg: str | None) -> None:
        """MAIL, with the DSN parameters and XSHADOW= taken out before aiosmtpd looks."""
        self.heard()
        path, parameters = _parameters(arg or "")
        if "XSHADOW" in parameters and (self._named is None or not self._may_shadow):
            await self.push(_OUT_OF_ORDER if self._may_shadow else "555 5.5.4 XSHADOW is not offered")
            return
        if "XSHADOW" in parameters and not SHADOW_ID.fullmatch(parameters["XSHADOW"]):
            await self.push(_MALFORMED)
            return
        rest = [f"{key}={value}" if value else key for key, value in parameters.items() if key not in _OURS]
        await super().smtp_MAIL(" ".join([path, *rest]))
        if self.envelope.mail_from:
            self.begin()
            self._mail = parameters
            self._shadow_id = parameters.get("XSHADOW")

    async def smtp_RCPT(self, arg: str | None) -> None:
        """RCPT, with NOTIFY and ORCPT (RFC 3461)."""
        path, parameters = _parameters(arg or "")
        before = len(self.envelope.rcpt_tos)
        await super().smtp_RCPT(path)
        if len(self.envelope.rcpt_tos) > before:
            notify, orcpt = parameters.get("NOTIFY", ""), parameters.get("ORCPT", "")
            self._recipients.append(Recipient(self.envelope.rcpt_tos[-1], notify, orcpt))

    def recipient_reply(self, address: str) -> str:
        """Return the reply to a recipient: unknown mailboxes of our own domains are refused at once."""
        config = self._host.config
        domain = address.rpartition("@")[2].casefold()
        if domain in config.mailbox_domains and address.casefold() not in config.mailbox_at:
            return "550 5.1.1 no such mailbox"
        return "250 2.1.5 recipient ok"

    async def decide(self, content: bytes) -> str:
        """Decide about a message at its final dot, in a task that a lost session does not end (SR-TMO-03)."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._working = True
        try:
            work = self._host.tasks.start(self._accept(content), f"{self._host.config.name}: accept")
            replies = await asyncio.shield(work)
        finally:
            self._working = False
        if self.transport is not None:
            self._reset_timeout()
        self.begin()
        return "\r\n".join(str(reply) for reply in replies)

    @property
    def _origin(self) -> tuple[str, str]:
        """What the client calls itself, and its address: for the trace field."""
        return self.session.host_name or "", self.session.peer[0] if isinstance(self.session.peer, tuple) else "local"

    async def _accept(self, content: bytes) -> list[Reply]:
        taken = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail)
        helo, peer = self._origin
        if self._door == "delivery":
            return await self._acceptance.into_mailboxes(taken, content, helo, peer)
        if self._shadow_id is not None and self._named is not None:
            return [await self._acceptance.keep_shadow(taken, content, *self._named, self._shadow_id)]
        return [await self._acceptance.take(taken, content, helo, peer, self._ends)]

    # the shadow verbs

    @syntax("XSHADOWREQUEST server database")
    async def smtp_XSHADOWREQUEST(self, arg: str | None) -> None:
        """The primary names itself and its queue database; we answer with ours (wire.md)."""
        self.heard()
        refusal = self._refusal(arg, SHADOW_ID, once=True)
        if refusal is not None:
            await self.push(refusal)
            return
        assert self._peer is not None
        self._named = (self._peer.name, (arg or "").split()[1])
        self._manager.saw_database(*self._named)
        await self._host.db.durable()
        await self.push(f"250 2.0.0 {self._host.config.name} {self._host.identity.database}")

    @syntax("XQDISCARD server max")
    async def smtp_XQDISCARD(self, arg: str | None) -> None:
        """A shadow server asks which shadows it may let go of (SR-MNT-04, SR-WIR-04)."""
        self.heard()
        refusal = self._refusal(arg, _MOST)
        if refusal is not None:
            await self.push(refusal)
            return
        assert self._peer is not None
        lines, self._telling = self._discards.answer(self._peer.name, int((arg or "").split()[1]))
        for line in lines:
            await self.push(line)

    async def smtp_XSHADOW(self, arg: str | None) -> None:
        """A verb of Exchange 2010, which later servers do not take (SR-IOP-01)."""
        self.heard()
        await self.push(NOT_OFFERED)

    async def smtp_XQUERYDISCARD(self, arg: str | None) -> None:
        """The name that Exchange 2010 has for XQDISCARD."""
        self.heard()
        await self.push(NOT_OFFERED)

    def _refusal(self, arg: str | None, second: re.Pattern[str], *, once: bool = False) -> str | None:
        """Return why a shadow verb `VERB server second` is refused (wire.md), or None; `once`: once in a session."""
        words = (arg or "").split()
        if self.session.host_name is None and self._door == "transport":
            return _OUT_OF_ORDER
        peer = self._peer
        if not self._may_shadow:
            return _FORBIDDEN if peer is not None and not peer.accept_xshadow else NOT_OFFERED
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or not second.fullmatch(words[1]):
            return _MALFORMED
        if (once and self._named is not None) or self.envelope.mail_from:
            return _OUT_OF_ORDER
        return None if peer is not None and words[0].casefold() == peer.name.casefold() else _FORBIDDEN

    async def smtp_QUIT(self, arg: str | None) -> None:
        """Leave; what was told before has been heard."""
        self.heard()
        await super().smtp_QUIT(arg)

    async def smtp_NOOP(self, arg: str | None) -> None:
        """Do nothing; what was told before has been heard."""
        self.heard()
        await self.push("250 2.0.0 ok")

    def heard(self) -> None:
        """Forget the discard notifications of the last reply: a further command shows that it was read."""
        if self._telling:
            self._discards.told(self._telling)
            self._telling = []

    def begin(self) -> None:
        """Forget the transaction."""
        self._mail, self._recipients, self._shadow_id = {}, [], None


class _Hooks:
    """What aiosmtpd calls; the names and signatures are its own."""

    async def handle_EHLO(
        self, server: Receiver, session: Session, envelope: Transaction, name: str, responses: list[str]
    ) -> list[str]:
        """Offer what this listener has."""
        return server.greeted(name, responses)

    async def handle_RSET(self, server: Receiver, session: Session, envelope: Transaction) -> str:
        """Forget the transaction."""
        server.begin()
        return "250 2.0.0 forgotten"

    async def handle_MAIL(
        self, server: Receiver, session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Take the reverse-path."""
        envelope.mail_from = address or "<>"
        return "250 2.1.0 sender ok"

    async def handle_RCPT(
        self, server: Receiver, session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Take or refuse a recipient."""
        reply = server.recipient_reply(address)
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: Receiver, session: Session, envelope: Transaction) -> str:
        """Decide about a message."""
        return await server.decide(bytes(envelope.original_content or b""))


class LocalReceiver(Receiver, LMTP):
    """A session of the `delivery` listener (LMTP, RFC 2033)."""

    async def smtp_LHLO(self, arg: str) -> None:
        """LHLO, answered as EHLO is."""
        await Receiver.smtp_EHLO(self, arg)

    async def smtp_EHLO(self, arg: str) -> None:
        """LMTP has no EHLO."""
        await self.push("500 5.5.1 say LHLO")


def _parameters(arg: str) -> tuple[str, dict[str, str]]:
    """Split `FROM:<path> KEY=value ...`; values keep their case."""
    end = arg.find(">")
    path, rest = (arg[: end + 1], arg[end + 1 :]) if end >= 0 else (arg, "")
    found = (word.partition("=") for word in rest.split())
    return path, {key.upper(): value for key, _, value in found}
