"""One session of a listener: aiosmtpd's SMTP and LMTP, with enhanced status codes, limits, DSN and the shadow verbs."""

import asyncio

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Session, syntax
from aiosmtpd.smtp import Envelope as Transaction

from conformance.reference.config import Listener
from conformance.reference.host import Host
from conformance.reference.message import Recipient
from conformance.reference.receive.acceptance import MessageOrigin, envelope_of
from conformance.reference.receive.authentication import PeerAuthentication
from conformance.reference.receive.fast_smtp import PrefixedDir
from conformance.reference.receive.verbs import ListenerName, SessionState
from conformance.reference.replies import Reply, add_enhanced_code

MARGIN = 5.0
"""Seconds before a session's end at which its message must have a reply; less where the session is short."""

TRACE_ROOM = 64 * 1024
"""Octets by which a message may be larger when another server of the organisation hands it over: what was small enough at
the front door stays so, whatever trace fields it gets on its way (RFC 5321 4.4)."""

_OURS = frozenset({"RET", "ENVID", "XSHADOW"})
_BROKEN = "451 4.3.0 the server failed"
_UNSENDABLE = "553 5.1.3 the address has characters that cannot be sent on"


class Receiver(PeerAuthentication):
    """A session; idle for too long or open for too long it ends with 421 4.4.2 (SR-TMO-06, SR-TMO-07)."""

    def __init__(self, host: Host, door: ListenerName, limits: Listener, sessions: "set[Receiver]") -> None:
        self.host = host
        self.session_state = SessionState(door)
        self.verbs = host.verbs(host, self.session_state)
        self.acceptance_task: asyncio.Task[list[Reply]] | None = None
        self.limits = limits
        self._sessions = sessions
        self._started_at = 0.0
        self._age_timer: asyncio.TimerHandle | None = None
        self._in_ehlo = False
        self._banner_sent = False
        self._shutting_down = False
        self._shadow_id: str | None = None
        self._mail_parameters: dict[str, str] = {}
        self._recipients: list[Recipient] = []
        super().__init__(
            _Hooks(),
            data_size_limit=host.transport.MaxMessageSize + (0 if door == "frontend" else TRACE_ROOM),
            hostname=host.name,
            ident="transport",
            timeout=limits.connection_inactivity_timeout,
            tls_context=self.starttls_context(),
            auth_exclude_mechanism=["LOGIN"],
            authenticator=self.check_secret,
            loop=asyncio.get_running_loop(),
        )

    # the connection and its limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, with a clock for the session's age; or begin TLS: then all is forgotten that was said before."""
        super().connection_made(transport)
        if self._age_timer is not None:
            self._reset_session()
            return
        self._sessions.add(self)
        self._started_at = self.loop.time()
        self._age_timer = self.loop.call_at(self._expires_at, self._timeout_cb)

    def _reset_session(self) -> None:
        """Know nothing of the client any more (RFC 3207 4.2)."""
        self.verbs.session_ended()
        self.session_state = SessionState(self.session_state.listener)
        self.verbs = self.host.verbs(self.host, self.session_state)
        self.reset_transaction()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._sessions.discard(self)
        self.verbs.session_ended()
        if self._age_timer is not None:
            self._age_timer.cancel()
        super().connection_lost(error)

    def apply_limits(self, limits: Listener) -> None:
        """Keep to changed limits from now on."""
        self.limits = limits
        self._timeout_duration = limits.connection_inactivity_timeout
        if self._age_timer is not None and self.transport is not None:
            self._age_timer.cancel()
            self._age_timer = self.loop.call_at(max(self._expires_at, self.loop.time()), self._timeout_cb)
            if self.acceptance_task is None:
                self._reset_timeout()

    @property
    def _expires_at(self) -> float:
        """The loop's time at which the session is too old."""
        return self._started_at + self.limits.connection_timeout

    @property
    def _deadline(self) -> float:
        """The loop's time at which a message must have its reply."""
        return self._expires_at - min(MARGIN, self.limits.connection_timeout / 20)

    def data_received(self, data: bytes) -> None:
        """Note that the client is not idle."""
        if self.acceptance_task is None:
            self._reset_timeout()
        super().data_received(data)

    def _timeout_cb(self) -> None:
        self._send_and_close(b"421 4.4.2 connection timed out\r\n")

    def shut_down(self) -> None:
        """End in an orderly way: at once, or when the message in hand has its reply."""
        self._shutting_down = True
        if self.acceptance_task is None:
            self._send_and_close(b"421 4.3.2 the server is going down\r\n")

    def _send_and_close(self, line: bytes) -> None:
        if self.transport is not None:
            self.transport.write(line)
            self.transport.close()

    def abort(self) -> None:
        """End at once, as a killed process would."""
        if self.transport is not None:
            self.transport.abort()

    async def push(self, status: str | bytes) -> None:
        """Send a reply line, with an enhanced status code; the very first line, which welcomes the client, has none."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        bare, self._banner_sent = self._in_ehlo or not self._banner_sent, True
        await super().push(text if bare else add_enhanced_code(text))

    # who it is

    async def smtp_EHLO(self, arg: str) -> None:
        """EHLO: the one positive reply without an enhanced status code (RFC 2034 4)."""
        self._in_ehlo = True
        try:
            await SMTP.smtp_EHLO(self, arg)
        finally:
            self._in_ehlo = False

    def ehlo_reply(self, name: str, responses: list[str]) -> list[str]:
        """Return the reply to EHLO or LHLO, as one text: what this listener offers to this peer."""
        self.verbs.confirm_discards_read()
        self.reset_transaction()
        self.session.host_name = name
        self.session_state.greeted = True
        self.session_state.peer = self.identify_peer()
        offered = [line[4:] for line in responses if "HELP" not in line and "AUTH" not in line]
        offered += self.auth_keywords()
        offered += ["PIPELINING", "ENHANCEDSTATUSCODES"]
        offered += [] if self.session_state.listener == "delivery" else ["DSN"]
        offered += self.verbs.ehlo_keywords()
        return ["\r\n".join([*(f"250-{line}" for line in offered[:-1]), f"250 {offered[-1]}"])]

    async def smtp_AUTH(self, arg: str) -> None:
        """AUTH; what was told before has been heard."""
        self.verbs.confirm_discards_read()
        await super().smtp_AUTH(arg)

    # a mail transaction

    async def smtp_MAIL(self, arg: str | None) -> None:
        """MAIL, with the DSN parameters and XSHADOW= taken out before aiosmtpd looks."""
        self.verbs.confirm_discards_read()
        path, parameters = _parameters(arg or "")
        if "XSHADOW" in parameters and (refused := self.verbs.mail_refusal(parameters["XSHADOW"])):
            await self.push(refused)
            return
        rest = [f"{key}={value}" if value else key for key, value in parameters.items() if key not in _OURS]
        nested = self.session_state.in_transaction
        await super().smtp_MAIL(" ".join([path, *rest]))
        if self.envelope.mail_from and not nested:
            self.reset_transaction()
            self.session_state.in_transaction = True
            self._mail_parameters = parameters
            self._shadow_id = parameters.get("XSHADOW")

    async def smtp_RCPT(self, arg: str | None) -> None:
        """RCPT, with NOTIFY and ORCPT (RFC 3461)."""
        path, parameters = _parameters(arg or "")
        before = len(self.envelope.rcpt_tos)
        await super().smtp_RCPT(path)
        if len(self.envelope.rcpt_tos) > before:
            notify, orcpt = parameters.get("NOTIFY", "").upper(), parameters.get("ORCPT", "")
            self._recipients.append(Recipient(self.envelope.rcpt_tos[-1], notify, orcpt))

    def recipient_reply(self, address: str) -> str:
        """Return the reply to a recipient: unknown mailboxes of our own domains are refused at once."""
        config = self.host.config
        domain = address.rpartition("@")[2].casefold()
        if not address.isprintable():
            return _UNSENDABLE
        if domain in config.mailbox_domains and address.casefold() not in config.mailboxes_by_address:
            return "550 5.1.1 no such mailbox"
        return "250 2.1.5 recipient ok"

    async def handle_message(self, content: bytes) -> str:
        """Decide about a message at its final dot, in a task that a lost session does not end (SR-TMO-03)."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self.acceptance_task = self.host.tasks.start(self._accept(content), f"{self.host.name}: accept")
        try:
            replies = await asyncio.shield(self.acceptance_task)
        finally:
            self.acceptance_task = None
        if self.transport is not None:
            self._reset_timeout()
        if self._shutting_down:
            self.loop.call_soon(self.shut_down)
        self.reset_transaction()
        return "\r\n".join(str(reply) for reply in replies)

    async def _accept(self, content: bytes) -> list[Reply]:
        host = self.host
        taken = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail_parameters)
        address = self.session.peer[0] if isinstance(self.session.peer, tuple) else "local"
        seen = not host.rights.is_submission(self.session_state.peer)
        origin = MessageOrigin(self.session.host_name or "", address, seen, self._deadline)
        if not host.db.has_room(len(content)):
            host.log.warning("no room for a message of %d octets", len(content))
            return [host.acceptance.no_room_reply()] * (
                len(taken.recipients) if self.session_state.listener == "delivery" else 1
            )
        if self.session_state.listener == "delivery":
            return await host.acceptance.deliver_to_mailboxes(taken, content, origin)
        if self._shadow_id is not None:
            return [await self.verbs.accept_message(self._shadow_id, taken, content, origin)]
        return [await host.acceptance.accept(taken, content, origin)]

    def reset_transaction(self) -> None:
        """Forget the transaction."""
        self._mail_parameters, self._recipients, self._shadow_id = {}, [], None
        self.session_state.in_transaction = False

    # the shadow verbs, and what else shows that a reply was read

    async def _shadow_verb(self, verb: str, arg: str | None) -> None:
        self.verbs.confirm_discards_read()
        await self.push("\r\n".join(await self.verbs.dispatch(verb, (arg or "").split())))

    @syntax("XSHADOWREQUEST server database")
    async def smtp_XSHADOWREQUEST(self, arg: str | None) -> None:
        """Exchange 2013 and later: keep shadows for me."""
        await self._shadow_verb("XSHADOWREQUEST", arg)

    @syntax("XSHADOW server database")
    async def smtp_XSHADOW(self, arg: str | None) -> None:
        """Exchange 2010: I keep shadows of what I send you."""
        await self._shadow_verb("XSHADOW", arg)

    @syntax("XQDISCARD server max")
    async def smtp_XQDISCARD(self, arg: str | None) -> None:
        """Which shadows may I let go of?"""
        await self._shadow_verb("XQDISCARD", arg)

    @syntax("XQUERYDISCARD server max")
    async def smtp_XQUERYDISCARD(self, arg: str | None) -> None:
        """The other name of XQDISCARD, in Exchange 2010."""
        await self._shadow_verb("XQUERYDISCARD", arg)

    async def smtp_RSET(self, arg: str | None) -> None:
        """Forget the transaction; what was told before has been heard."""
        self.verbs.confirm_discards_read()
        await super().smtp_RSET(arg)

    async def smtp_QUIT(self, arg: str | None) -> None:
        """Leave; what was told before has been heard."""
        self.verbs.confirm_discards_read()
        await super().smtp_QUIT(arg)

    async def smtp_NOOP(self, arg: str | None) -> None:
        """Do nothing; what was told before has been heard."""
        self.verbs.confirm_discards_read()
        await self.push("250 2.0.0 ok")


class _Hooks(PrefixedDir):
    """What aiosmtpd calls; the names and signatures are its own."""

    async def handle_EHLO(
        self, server: Receiver, session: Session, envelope: Transaction, name: str, responses: list[str]
    ) -> list[str]:
        """Offer what this listener has."""
        return server.ehlo_reply(name, responses)

    async def handle_RSET(self, server: Receiver, session: Session, envelope: Transaction) -> str:
        """Forget the transaction."""
        server.reset_transaction()
        return "250 2.0.0 forgotten"

    async def handle_MAIL(
        self, server: Receiver, session: Session, envelope: Transaction, address: str, options: list[str]
    ) -> str:
        """Take the reverse-path."""
        if address and not address.isprintable():
            return _UNSENDABLE
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
        return await server.handle_message(bytes(envelope.original_content or b""))

    async def handle_exception(self, error: Exception) -> str:
        """Promise nothing: what failed is told by the task that failed."""
        return _BROKEN


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
