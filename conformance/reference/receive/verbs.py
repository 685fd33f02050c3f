"""The shadow verbs of Exchange 2013 and later, the server's side (wire-profile.md).

A *primary* is a server that must deliver a message, a *shadow server* one that keeps a copy (*shadow*) of the message for it. A
primary says XSHADOWREQUEST and then sends copies to keep with MAIL ... XSHADOW=id. A shadow server says XQDISCARD to learn which
copies it may discard: the reply has a *discard notification* for each. It counts as read once the client sends a further command
(session.py); until then its notifications are unconfirmed, and they are sent again if the session ends (SR-WIR-05). Methods
return reply lines as text. `session_state` says what the session knows of the client, such as `peer`, the server of the
organisation that it is (None for any other client).
"""

import re
from typing import Literal

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.replies import Reply
from conformance.reference.storage.discards import DiscardNotification

ListenerName = Literal["frontend", "transport", "delivery"]

NOT_OFFERED = "502 5.5.1 command not offered"
NO_SUCH_PARAMETER = "555 5.5.4 XSHADOW is not offered"
MALFORMED = "501 5.5.4 malformed arguments"
OUT_OF_ORDER = "503 5.5.1 out of order"
FORBIDDEN = "550 5.7.1 not allowed"

# the patterns of the arguments of verbs
SHADOW_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
COUNT = re.compile(r"[1-9][0-9]{0,5}")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


class SessionState:
    """What the verbs need to know of their session; the session keeps it up to date.

    `greeted`: the client has said EHLO. `peer` is the server of the organisation that the client is, None for any other client.
    `in_transaction`: MAIL was accepted, and the transaction has not ended. `listener` is the name of the session's listener.
    """

    def __init__(self, name: ListenerName) -> None:
        self.listener = name
        self.greeted = False
        self.peer: Peer | None = None
        self.in_transaction = False


class ShadowVerbs:
    """XSHADOWREQUEST and XQDISCARD in one session.

    `client_identity` is the pair (server, id of its queue database) that the client named with XSHADOWREQUEST, None before it.
    `unconfirmed_discards` are the discard notifications in the last reply to XQDISCARD. `keeps_copies`: a message with XSHADOW= is
    a copy to keep, and not one to deliver.
    """

    keeps_copies = True

    def __init__(self, host: Host, session_state: SessionState) -> None:
        self.host = host
        self.session_state = session_state
        self.client_identity: tuple[str, str] | None = None
        self.unconfirmed_discards: list[DiscardNotification] = []

    def ehlo_keywords(self) -> list[str]:
        """Return the keywords of the verbs that this client is offered, for the EHLO reply; XQDISCARD has none of its own."""
        return ["XSHADOWREQUEST"] if self.may_use_shadow_verbs else []

    @property
    def may_use_shadow_verbs(self) -> bool:
        """Whether the client may use the shadow verbs in this session: on the transport listener, with the right to (`Rights`)."""
        session_state = self.session_state
        return session_state.listener == "transport" and self.host.rights.may_use_shadow_verbs(session_state.peer)

    async def dispatch(self, verb: str, arguments: list[str]) -> list[str]:
        """Handle a shadow verb with these arguments; return the lines of the reply, 502 for an unknown verb."""
        match verb:
            case "XSHADOWREQUEST":
                return await self.handle_xshadowrequest(arguments)
            case "XQDISCARD":
                return await self.handle_xqdiscard(arguments)
            case _:
                return [NOT_OFFERED]

    async def handle_xshadowrequest(self, words: list[str]) -> list[str]:
        """Handle `XSHADOWREQUEST server database`: a primary names itself and its queue database; reply with those of this server.

        The session counts as contact with the primary. Shadows held here for the primary that came from another database of it
        are promoted: this server delivers them (SR-MNT-11). A second request in one session is out of order (503). Return the one
        line of the reply.
        """
        if refused := self.refusal(words, SHADOW_ID):
            return [refused]
        if self.client_identity is not None:
            return [OUT_OF_ORDER]
        self.client_identity = (words[0], words[1])
        self.host.manager.record_contact_and_database(*self.client_identity)
        return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]

    async def handle_xqdiscard(self, words: list[str]) -> list[str]:
        """Handle `XQDISCARD server max`: a shadow server asks which shadows it may discard (SR-MNT-04, SR-WIR-04).

        Return the lines of the reply, with at most `max` discard notifications, or the refusal. The notifications stay queued
        until the client's next command. If there are any, waits until it is on disk that their messages have been processed. A
        query shows that the client runs (`record_query_from`).
        """
        if refused := self.refusal(words, COUNT):
            return [refused]
        self.host.manager.record_query_from(words[0])
        lines, self.unconfirmed_discards = await self.host.discard_status.answer_query(words[0], int(words[1]))
        return lines

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return the reply that refuses a shadow verb with the arguments `words`, or None if it is permitted.

        The first argument must be the name of the server that the client is, the second match `second_pattern`. If permitted, the
        name in `words` is replaced in place with the configured spelling. The reply is 503 before EHLO or in a mail transaction,
        502 where the verb is not offered, 550 for a peer without the right or another server's name, and 501 for malformed
        arguments. 503 before EHLO and 550 for a peer without the right come on the listener `transport` only; elsewhere 502 does.
        The order of the checks is a choice (ruling 33).
        """
        session_state = self.session_state
        if session_state.listener == "transport" and not session_state.greeted:
            return OUT_OF_ORDER
        peer = session_state.peer
        if not self.may_use_shadow_verbs or peer is None:
            forbidden = session_state.listener == "transport" and self.host.rights.lacks_xshadow_right(peer)
            return FORBIDDEN if forbidden else NOT_OFFERED
        if len(words) != 2 or not NAME.fullmatch(words[0]) or not second_pattern.fullmatch(words[1]):
            return MALFORMED
        if session_state.in_transaction:
            return OUT_OF_ORDER
        if words[0].casefold() != peer.name.casefold():
            return FORBIDDEN
        words[0] = peer.name
        return None

    def mail_refusal(self, shadow_id: str) -> str | None:
        """Return the reply that refuses MAIL with XSHADOW=<shadow_id>, or None if it is permitted.

        It is permitted with a valid id, after XSHADOWREQUEST (2010: XSHADOW), for a client that may use the shadow verbs.
        """
        if not self.may_use_shadow_verbs:
            return NO_SUCH_PARAMETER
        if self.client_identity is None:
            return OUT_OF_ORDER
        return None if SHADOW_ID.fullmatch(shadow_id) else MALFORMED

    async def accept_message(self, shadow_id: str, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Keep a message that was sent with XSHADOW= as a shadow; wait until it is on disk, and return the reply, 250.

        `mail_refusal` has permitted the message, so the client has said XSHADOWREQUEST. `origin` matters in 2010 only.
        """
        assert self.client_identity is not None
        return await self.host.keeping.keep(envelope, content, *self.client_identity, shadow_id)

    def confirm_discards_read(self) -> None:
        """Delete the notifications in the last reply to XQDISCARD: the client has read them, since it sends another command (SR-WIR-05).

        Does nothing if there are none. Does not wait for the disk.
        """
        if self.unconfirmed_discards:
            self.host.discard_status.confirm_read(self.unconfirmed_discards)
            self.unconfirmed_discards = []

    def session_ended(self) -> None:
        """Return the unconfirmed notifications, if any, to the queue, since the session has ended: they are sent again when asked for."""
        self.host.discard_status.release_unread(self.unconfirmed_discards)
        self.unconfirmed_discards = []
