"""One session of a listener: aiosmtpd's SMTP and LMTP with enhanced status codes, time limits, DSN and the shadow verbs.

aiosmtpd calls a method `smtp_VERB` for each command line and a method of `hooks.Hooks` when it has parsed a command. Methods
here that are named for a verb take what aiosmtpd does not know (DSN and XSHADOW= parameters) out of the line first. After the
final dot `handle_message` decides in a task that survives the session; until its reply the message is *in hand*, and
`acceptance_task` is that task. `limits` are the time limits of the listener, in seconds. `transport` is the connection, None once
it has ended. `self.host` has the other components of the node.

With the *shadow verbs* (verbs.py) another server has copies (shadows) of its messages kept here, and asks with XQDISCARD which
copies it may give up that it keeps for this server. The reply names them in *discard notifications*. Any further command, also
one that is refused, confirms that the client has read them (`verbs.confirm_discards_read`).
"""

import asyncio

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, syntax

from conformance.reference.config import Listener
from conformance.reference.host import Host
from conformance.reference.message import Recipient
from conformance.reference.receive.acceptance import MessageOrigin, envelope_of
from conformance.reference.receive.authentication import PeerAuthentication
from conformance.reference.receive.chunking import Chunking
from conformance.reference.receive.hooks import UNDECLARED_ADDRESS, UNSENDABLE_ADDRESS, Hooks
from conformance.reference.receive.mail_parameters import (
    MAIL_PARAMETERS,
    RCPT_PARAMETERS,
    has_invalid_mail_parameter,
    has_invalid_rcpt_parameter,
    split_parameters,
    without_parameters,
)
from conformance.reference.receive.verbs import ListenerName, SessionState
from conformance.reference.replies import Reply, add_enhanced_code, reply_line

MARGIN = 5.0
"""Seconds before the end of a session by which its message must have a reply; less if the session is short."""

TRACE_ROOM = 64 * 1024
"""Octets by which a message from another server of the organisation may exceed MaxMessageSize: trace fields that are added on
the way do not count (RFC 5321 4.4)."""


class Receiver(Chunking, PeerAuthentication):
    """One SMTP session; it ends with 421 4.4.2 when it is idle or open for too long (SR-TMO-06, SR-TMO-07).

    `name` is that of the listener, `limits` its configuration; `sessions` is the set of the node's open sessions, to which it
    adds itself. `verbs` handles the shadow verbs. `acceptance_task` decides about the message in hand, or is None.
    `_mail_parameters` (of MAIL, by name in upper case), `_recipients` and `_shadow_id` (the value of XSHADOW=) belong to the mail
    transaction. `_started_at` is the event loop's time, `_age_timer` ends the session when it is too old. `_in_ehlo`: the reply
    to EHLO or HELO is being sent; `_shutting_down`: the session ends after the message in hand. Names that begin with `smtp_`,
    and `push`, `session` and `envelope`, are aiosmtpd's.
    """

    utf8_verbs = frozenset({"MAIL", "RCPT"})

    def __init__(self, host: Host, name: ListenerName, limits: Listener, sessions: "set[Receiver]") -> None:
        """Prepare a session of the listener `name`; it begins, and joins `sessions`, when it is connected.

        The largest message is MaxMessageSize, and TRACE_ROOM more on other listeners than `frontend`.
        """
        self.host = host
        self.session_state = SessionState(name)
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
            Hooks(),
            data_size_limit=host.transport.MaxMessageSize + (0 if name == "frontend" else TRACE_ROOM),
            hostname=host.name,
            ident="transport",
            timeout=limits.connection_inactivity_timeout,
            tls_context=self.starttls_context(),
            authenticator=self.check_secret,
            loop=asyncio.get_running_loop(),
        )

    # the connection and its limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the session and the timer for its age; or, when called again since TLS has begun, forget what the client said before.

        asyncio calls this. The age counts on over TLS.
        """
        super().connection_made(transport)
        if self._age_timer is not None:
            self._reset_session()
            return
        self._sessions.add(self)
        self._started_at = self.loop.time()
        self._age_timer = self.loop.call_at(self._expires_at, self._timeout_cb)

    def _reset_session(self) -> None:
        """Discard all knowledge of the client after STARTTLS (RFC 3207 4.2): who it is, and the state of its shadow verbs.

        Discard notifications that it has not confirmed go back to their queue.
        """
        self.verbs.session_ended()
        self.session_state = SessionState(self.session_state.listener)
        self.verbs = self.host.verbs(self.host, self.session_state)

    def connection_lost(self, error: Exception | None) -> None:
        """End the session and cancel its timers; discard notifications that the client has not confirmed go back to their queue.

        asyncio calls this. The acceptance of a message goes on.
        """
        self._sessions.discard(self)
        self.verbs.session_ended()
        if self._age_timer is not None:
            self._age_timer.cancel()
        super().connection_lost(error)

    def apply_limits(self, limits: Listener) -> None:
        """Apply changed time limits to the open session after a reload; its age and the time for which it is idle count on.

        A session that exceeds the new limits ends in the next turn of the event loop. While a message is in hand there is no idle
        limit. Does nothing but keep the limits if the session has ended or is not connected yet.
        """
        self.limits = limits
        longer = limits.connection_inactivity_timeout - self._timeout_duration
        self._timeout_duration = limits.connection_inactivity_timeout
        if self._age_timer is not None and self.transport is not None:
            self._age_timer.cancel()
            # `_expires_at` is computed from the new limits.
            self._age_timer = self.loop.call_at(max(self._expires_at, self.loop.time()), self._timeout_cb)
            if self.acceptance_task is None:
                self._idle_deadline = max(self._idle_deadline + longer, self.loop.time())
                self._set_idle_timer()

    @property
    def _expires_at(self) -> float:
        """The event loop's time at which the session is too old and ends (SR-TMO-07)."""
        return self._started_at + self.limits.connection_timeout

    @property
    def _reply_deadline(self) -> float:
        """The event loop's time by which a message must have its reply: a margin before the session is too old.

        The margin is MARGIN seconds, or a twentieth of the longest age of a session, or half of the time that is left, whichever
        is least. So at least half of the time is left to have a shadow made.
        """
        left = max(0.0, self._expires_at - self.loop.time())
        return self._expires_at - min(MARGIN, self.limits.connection_timeout / 20, left / 2)

    def data_received(self, data: bytes) -> None:
        """Restart the idle timeout, unless a message is in hand, and handle the lines that have come as `FastSMTP` does."""
        if self.acceptance_task is None:
            self._reset_timeout()
        super().data_received(data)

    async def _dispatch(self, line: bytes) -> None:
        """Handle a command line as `FastSMTP` does; any line confirms the last discard notifications, also one that is refused."""
        self.verbs.confirm_discards_read()
        await super()._dispatch(line)

    def _timeout_cb(self) -> None:
        """End the session with 421 because it has been idle or open for too long; aiosmtpd prescribes the name."""
        self._send_and_close(b"421 4.4.2 connection timed out\r\n")

    def shut_down(self) -> None:
        """End the session with 421 because the node stops: at once, or when the message in hand has its reply. Does not wait."""
        self._shutting_down = True
        if self.acceptance_task is None:
            self._send_and_close(b"421 4.3.2 the server is going down\r\n")

    def _send_and_close(self, line: bytes) -> None:
        """Send a last reply line and close the connection, if it is open."""
        if self.transport is not None:
            self.transport.write(line)
            self.transport.close()

    def abort(self) -> None:
        """Drop the connection without a reply, as a killed process would; do nothing if it has ended."""
        if self.transport is not None:
            self.transport.abort()

    async def push(self, status: str | bytes) -> None:
        """Send a reply line with an enhanced status code added; the banner and the replies to EHLO and HELO have none (RFC 2034 4).

        A line that has one already, has a code 3yz, or is followed by another (`250-`) gets none. `FastSMTP.push` sends a reply
        once its last line is there. Raises ConnectionResetError if the client is gone.
        """
        text = status.decode("ascii") if isinstance(status, bytes) else status
        bare, self._banner_sent = self._in_ehlo or not self._banner_sent, True
        await super().push(text if bare else add_enhanced_code(text))

    # greeting and authentication

    async def smtp_EHLO(self, arg: str) -> None:
        """Handle EHLO, whose reply has no enhanced status code (RFC 2034 4); aiosmtpd has the reply made by `ehlo_reply`."""
        self._in_ehlo = True
        try:
            await SMTP.smtp_EHLO(self, arg)
        finally:
            self._in_ehlo = False

    async def smtp_HELO(self, arg: str) -> None:
        """Handle HELO, whose reply has no enhanced status code (RFC 2034 4). Unlike EHLO it does not identify the client as a peer."""
        self._in_ehlo = True
        try:
            await SMTP.smtp_HELO(self, arg)
        finally:
            self._in_ehlo = False

    def ehlo_reply(self, name: str, responses: list[str]) -> list[str]:
        """Identify the client, which greets as `name`, and return the EHLO or LHLO reply as a list of one text.

        That text has all reply lines. `responses` are the lines that aiosmtpd would send: the reply has their keywords but HELP,
        further PIPELINING, ENHANCEDSTATUSCODES and SMTPUTF8, and those of DSN, CHUNKING and the shadow verbs, as far as they are
        offered to this client. aiosmtpd has reset the mail transaction.
        """
        self.session.host_name = name
        self.session_state.greeted = True
        self.session_state.peer = self.identify_peer()
        first, *keywords = (line[4:] for line in responses)  # without the codes; the first is this server's name
        offered = [first, *(keyword for keyword in keywords if keyword != "HELP")]
        offered += ["PIPELINING", "ENHANCEDSTATUSCODES", "SMTPUTF8"]
        offered += [] if self.session_state.listener == "delivery" else ["DSN", "CHUNKING"]
        offered += self.verbs.ehlo_keywords()
        return ["\r\n".join([*(f"250-{line}" for line in offered[:-1]), f"250 {offered[-1]}"])]

    # a mail transaction

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Handle MAIL; DSN parameters, SMTPUTF8 and XSHADOW= are taken out of the line before aiosmtpd parses it.

        If it is accepted, a mail transaction with these parameters begins. It is refused here if such a parameter is malformed,
        an address in UTF-8 has no SMTPUTF8, or XSHADOW= is not permitted; aiosmtpd may refuse the rest. A refused MAIL changes no
        transaction.
        """
        path, parameters = split_parameters(arg or "")
        if has_invalid_mail_parameter(arg or ""):
            await self.push("501 5.5.4 RET or ENVID is malformed, or given twice")
            return
        if parameters.get("SMTPUTF8"):
            await self.push("501 5.5.4 SMTPUTF8 takes no value")
            return
        if not path.isascii() and "SMTPUTF8" not in parameters:
            await self.push(UNDECLARED_ADDRESS)
            return
        # XSHADOW=: the client sends a shadow copy (in 2010: a message whose shadow it keeps)
        if "XSHADOW" in parameters and (refused := self.verbs.mail_refusal(parameters["XSHADOW"])):
            await self.push(refused)
            return
        nested = self.session_state.in_transaction  # aiosmtpd refuses a second MAIL, which must change nothing
        await super().smtp_MAIL(without_parameters(path, parameters, MAIL_PARAMETERS))
        if self.envelope.mail_from and not nested:
            self.session_state.in_transaction = True
            self._mail_parameters = parameters
            self._shadow_id = parameters.get("XSHADOW")

    async def smtp_RCPT(self, arg: str | None) -> None:
        """Handle RCPT; NOTIFY and ORCPT (RFC 3461) are taken out of the line before aiosmtpd parses it and refuses other parameters.

        An accepted recipient joins the mail transaction. RCPT is refused here if NOTIFY or ORCPT is malformed, or given twice, and for
        an address in UTF-8 unless MAIL had SMTPUTF8.
        """
        path, parameters = split_parameters(arg or "")
        if has_invalid_rcpt_parameter(arg or ""):
            await self.push("501 5.5.4 NOTIFY or ORCPT is malformed, or given twice")
            return
        if not path.isascii() and "SMTPUTF8" not in self._mail_parameters:
            await self.push(UNDECLARED_ADDRESS)
            return
        before = len(self.envelope.rcpt_tos)
        await super().smtp_RCPT(without_parameters(path, parameters, RCPT_PARAMETERS))
        if len(self.envelope.rcpt_tos) > before:
            notify, orcpt = parameters.get("NOTIFY", "").upper(), parameters.get("ORCPT", "")
            self._recipients.append(Recipient(self.envelope.rcpt_tos[-1], notify, orcpt))

    def recipient_reply(self, address: str) -> str:
        """Return the reply to RCPT with this address: 250 if it is accepted.

        Otherwise it is 550 for an unknown mailbox of a domain with mailboxes, 553 for an address with characters that cannot be
        sent on, and 501 for an empty one. A copy that is only kept may be for an unknown mailbox (wire-profile.md).
        """
        config = self.host.config
        domain = address.rpartition("@")[2].casefold()
        if address in ("", "<>"):
            return "501 5.1.3 the forward-path is empty"
        if not address.isprintable():
            return UNSENDABLE_ADDRESS
        is_copy = self._shadow_id is not None and self.verbs.keeps_copies
        if domain in config.mailbox_domains and address.casefold() not in config.mailboxes_by_address and not is_copy:
            return "550 5.1.1 no such mailbox"
        return "250 2.1.5 recipient ok"

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a message after its final dot or last chunk, and return the reply lines joined with CRLF.

        The work is done in a task that goes on if the session is lost (SR-TMO-03); this method waits for it, and raises what it
        raises. The idle timer is off meanwhile. If `shut_down` was called meanwhile, the session ends after the reply.
        """
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
            self.loop.call_soon(self.shut_down)  # after the reply
        return "\r\n".join(map(reply_line, replies))

    async def _accept(self, content: bytes) -> list[Reply]:
        """Decide about a message, and return the replies to it: one, or on the delivery listener one for each recipient (LMTP).

        A message on the delivery listener goes into mailboxes. One with XSHADOW= in MAIL is for `verbs` (a shadow copy, or in
        2010 a message whose shadow the client keeps). Any other is accepted by this server as its primary server, which must
        deliver it. If the disk has no room, each of them is refused with 452.
        """
        host = self.host
        envelope = envelope_of(str(self.envelope.mail_from), list(self._recipients), self._mail_parameters)
        address = self.session.peer[0] if isinstance(self.session.peer, tuple) else "local"
        from_organisation = not host.rights.is_submission(self.session_state.peer)
        origin = MessageOrigin(
            hello=self.session.host_name or "",
            address=address,
            from_organisation=from_organisation,
            deadline=self._reply_deadline,
        )
        if not host.db.has_room(len(content)):
            host.log.warning("no room for a message of %d octets", len(content))
            return [host.acceptance.no_room_reply()] * (
                len(envelope.recipients) if self.session_state.listener == "delivery" else 1
            )
        if self.session_state.listener == "delivery":
            return await host.acceptance.deliver_to_mailboxes(envelope, content, origin)
        if self._shadow_id is not None:
            return [await self.verbs.accept_message(self._shadow_id, envelope, content, origin)]
        return [await host.acceptance.accept(envelope, content, origin)]

    def _set_post_data_state(self) -> None:
        """Discard the mail transaction, if any; aiosmtpd and `end_chunks` call this, such as after a message, EHLO or RSET."""
        super()._set_post_data_state()  # type: ignore[no-untyped-call]
        self.forget_chunks()
        self._mail_parameters, self._recipients, self._shadow_id = {}, [], None
        self.session_state.in_transaction = False

    # the shadow verbs, and commands of no mail transaction

    async def _shadow_verb(self, verb: str, arg: str | None) -> None:
        """Handle a shadow verb with the argument text `arg`, and send the reply that `verbs` gives, 502 where the verb is not offered."""
        await self.push("\r\n".join(await self.verbs.dispatch(verb, (arg or "").split())))

    @syntax("XSHADOWREQUEST server database")
    async def smtp_XSHADOWREQUEST(self, arg: str | None) -> None:
        """Handle XSHADOWREQUEST, by which a server of 2013 or later asks this one to keep its shadows; a server of 2010 replies 502."""
        await self._shadow_verb("XSHADOWREQUEST", arg)

    @syntax("XSHADOW server database")
    async def smtp_XSHADOW(self, arg: str | None) -> None:
        """Handle XSHADOW, by which a 2010 server says that it keeps shadows of what it sends; a server of 2013 or later replies 502."""
        await self._shadow_verb("XSHADOW", arg)

    @syntax("XQDISCARD server max")
    async def smtp_XQDISCARD(self, arg: str | None) -> None:
        """Handle XQDISCARD, by which the client asks which shadows that it holds for this server it may discard."""
        await self._shadow_verb("XQDISCARD", arg)

    @syntax("XQUERYDISCARD server max")
    async def smtp_XQUERYDISCARD(self, arg: str | None) -> None:
        """Handle XQDISCARD under its other name in Exchange 2010; a server of 2013 or later replies 502."""
        await self._shadow_verb("XQUERYDISCARD", arg)

    async def smtp_NOOP(self, arg: str | None) -> None:
        """Handle NOOP, which gets 250 and changes no transaction."""
        await self.push("250 2.0.0 ok")


class LocalReceiver(Receiver, LMTP):
    """A session of the `delivery` listener (LMTP, RFC 2033)."""

    async def smtp_LHLO(self, arg: str) -> None:
        """Handle LHLO as SMTP handles EHLO."""
        await Receiver.smtp_EHLO(self, arg)

    async def smtp_EHLO(self, arg: str) -> None:
        """Refuse EHLO, which LMTP does not have."""
        await self.push("500 5.5.1 say LHLO")

    async def smtp_HELO(self, arg: str) -> None:
        """Refuse HELO, which LMTP does not have."""
        await self.push("500 5.5.1 say LHLO")

    async def smtp_BDAT(self, arg: str | None) -> None:
        """Refuse BDAT, which is not offered here."""
        await self.push("502 5.5.1 command not offered")
