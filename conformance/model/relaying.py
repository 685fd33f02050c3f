"""What servers under test tried to pass on, and to what end: the facts on which the rules about relays go.

Theory of operation
-------------------
A server is *handed* a message when its final dot reaches the server, and *responsible* for a recipient from its positive final
reply on (RFC 5321 4.2.5). It *tries* to pass the message on in ordinary transactions that it opens itself. A `Try` is one such
transaction for one recipient, with the first reply that decides it: to MAIL, to its RCPT, to DATA, a refusal of a chunk before
the last, or the final one.

A transaction that was broken off has no content that says of which message it is. It is a try of the only message with its sender
and recipient that the server was handed; where there are several, or where it had no recipient yet, it is a `HopConnection`.

Nothing here decides whether something was right; the rules in `relay_*`, `reports`, `retries` and others read it. A session is
*unclear* where a fault altered what was said other than by silence, or the link recorded nothing after STARTTLS: the server may
have seen any end. `n` is an event's number, `t` its time in documented seconds. `name` is the scenario's name of a message.

Records: `ConnectFailed` is a connection that a client could not open. A fault may hold a connection back from when the client
dials.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.faults import ALTERING_FAULTS
from conformance.history.events import ConnectFailed, Reply
from conformance.model.facts import Facts, operation_name
from conformance.trace.dials import find_dials
from conformance.trace.sessions import LAST_CHUNK, Session, Transaction, parse_path

_SEVERAL = 2
"""As many messages with one sender and recipient are kept, those handed first: a later transaction may be of any of them."""

_OTHER_PURPOSES = frozenset({"request-shadow", "query-discard"})
"""Operations in a session that was not opened for mail."""

Key = tuple[str, str, str]
"""A server under test, the name of a message, a recipient (normalized)."""


@dataclass(frozen=True, slots=True)
class Handing:
    """A transaction in which a server was handed a message for a recipient; `n` and `t` are those of its final dot.

    `acknowledged` is the first positive final reply of the transaction, None where none accepted the message for the recipient, and
    for a shadow copy, which makes no server responsible.
    `responsible_n` is the number of the event since which the server may be responsible: that reply, or the dot where a link may
    have kept the reply; None where it is not.
    """

    transaction: Transaction
    n: int
    t: float
    acknowledged: Reply | None
    responsible_n: int | None


@dataclass(frozen=True, slots=True)
class Try:
    """A try of a server to pass a message on to a recipient.

    `reply` is the one that decided it; None where none came. `end_n` and `end_t` are those of that reply, or of the end of
    the session; infinite while the session is open. `is_known`: the client's next command, or an end that it made itself, shows
    that it read the reply. `is_unclear`: a fault altered what was said, so that neither side surely heard what the history has.
    """

    transaction: Transaction
    reply: Reply | None
    end_n: float
    end_t: float
    is_known: bool
    is_unclear: bool

    @property
    def outcome(self) -> int:
        """The first digit of the reply's code, 4 without one: a session that was lost may be tried again."""
        return self.reply.code // 100 if self.reply is not None else 4


@dataclass(frozen=True, slots=True)
class HopConnection:
    """A connection of a server to another party that failed, or in which no mail, or mail of an unknown message, was sent.

    A transaction of a known message that broke off is one too, besides its `Try`. `n` and `t` are those of its begin, `end_n` and
    `end_t` those of its end or of the deciding reply, infinite without one. `refusal` is the 4yz or 5yz reply in it, None without
    one. `server` is the other party.
    """

    server: str
    n: int
    t: float
    end_n: float
    end_t: float
    refusal: Reply | None = None
    is_unclear: bool = False

    @property
    def may_be_final(self) -> bool:
        """Whether a message of which the connection shows nothing may have been refused for good in it."""
        return self.is_unclear or (self.refusal is not None and self.refusal.code // 100 == 5)


class Relaying:
    """The handings and tries of every message, and the connections without mail.

    `Facts.compute_once(Relaying)` makes one for a history. `handings` and `tries` are by server, name of the message and
    normalized recipient, `hop_connections` by client; each list is in order.
    """

    def __init__(self, facts: Facts) -> None:
        """Collect the handings, and the tries and connections of all sessions that the servers under test opened themselves."""
        self.facts = facts
        self._dials = find_dials(facts.trace)
        self.handings: Mapping[Key, list[Handing]] = defaultdict(list)
        self.tries: Mapping[Key, list[Try]] = defaultdict(list)
        self.hop_connections: Mapping[str, list[HopConnection]] = defaultdict(list)
        """By client."""
        self.handed_any: set[tuple[str, str]] = set()
        """The servers and messages that they were handed for whichever recipient."""
        self._handed: Mapping[tuple[str, str, str], list[tuple[int, str]]] = defaultdict(list)
        """The messages that a server was handed, with the number of the dot, by server, sender and recipient."""
        for name in facts.trace.messages:
            self._add_handings(name)
        for session in facts.trace.sessions.values():
            if facts.is_opened_by_tested_server(session.client, session.name):
                self._add_session(session)
        self._add_failed_connections()
        for contacts in self.hop_connections.values():
            contacts.sort(key=lambda contact: contact.n)

    def find_begin(self, session: Session) -> tuple[int, float]:
        """Return number and time of the event at which the client began to connect.

        That is the fault which held the connection back; without one, the session's opening.
        """
        begun = self._dials.ended.get(session.n, session)
        return begun.n, begun.t

    def _add_failed_connections(self) -> None:
        """Add the connections that failed, and the dials that went on when the client stopped or the history ended.

        Where a fault held a connection back, it began when the fault fired.
        """
        dials = self._dials
        for event in self.facts.trace.events_of(ConnectFailed):
            if self.facts.is_tested_server(event.client):
                first = dials.ended.get(event.n, event)
                self.hop_connections[event.client].append(
                    HopConnection(server=event.server, n=first.n, t=first.t, end_n=event.n, end_t=event.t)
                )
        for fault in dials.without_end:
            if self.facts.is_tested_server(fault.client):
                self.hop_connections[fault.client].append(
                    HopConnection(server=fault.server, n=fault.n, t=fault.t, end_n=math.inf, end_t=math.inf)
                )

    def _add_handings(self, name: str) -> None:
        """Enter the transactions in which servers under test were handed a message.

        They go into `handed_any`, `handings` and `_handed`; the last keeps the first `_SEVERAL` messages for a server, sender and
        recipient, each with its first handing.
        """
        facts = self.facts
        for sent in facts.trace.transactions_of(name):
            if not facts.is_tested_server(sent.server) or sent.dot_n is None or sent.dot_t is None:
                continue
            self.handed_any.add((sent.server, name))
            accepted = facts.context.normalize_addresses(sent.accepted_recipients) if sent.kind != "shadow" else set()
            for recipient in sorted(facts.context.normalize_addresses(sent.recipients)):
                reply = sent.acceptance if recipient in accepted else None
                responsible_n = facts.trace.accepted_since(sent) if reply is not None else None
                self.handings[sent.server, name, recipient].append(
                    Handing(
                        transaction=sent, n=sent.dot_n, t=sent.dot_t, acknowledged=reply, responsible_n=responsible_n
                    )
                )
                sender = facts.context.normalize_address(sent.sender)
                handed = self._handed[sent.server, sender, recipient]
                if all(name != other for _, other in handed):
                    handed.append((sent.dot_n, name))
                    handed.sort()
                    del handed[_SEVERAL:]

    def _add_session(self, session: Session) -> None:
        """Add the tries of a session that a server under test opened; without mail in it, the `HopConnection` that it was.

        A session that was opened for shadow copies or queries is neither.
        """
        end_n, end_t = (session.closed.n, session.closed.t) if session.closed else (math.inf, math.inf)
        mail = [t for t in session.transactions if t.kind != "shadow"]
        if not session.transactions:
            # the MAIL may be the command that a fault made unreadable
            unreadable = any(not x.command.verb for x in session.exchanges)
            if unreadable or not any(operation_name(x) in _OTHER_PURPOSES for x in session.exchanges):
                refusal = next((r for r in session.replies if r.code >= 400), None)
                begin_n, begin_t = self.find_begin(session)
                contact = HopConnection(
                    server=session.server,
                    n=begin_n,
                    t=begin_t,
                    end_n=end_n,
                    end_t=end_t,
                    refusal=refusal,
                    is_unclear=self._is_session_unclear(session),
                )
                self.hop_connections[session.client].append(contact)
            return
        last = max((x.command.n for x in session.exchanges), default=-1)
        left = session.closed is not None and session.closed.by == "client" and session.closed.how == "fin"
        for index, sent in enumerate(mail):
            until = mail[index + 1].n if index + 1 < len(mail) else math.inf
            self._add_tries(session, sent, until, (end_n, end_t), known_before=math.inf if left else last)

    def _add_tries(
        self, session: Session, sent: Transaction, until: float, end: tuple[float, float], known_before: float
    ) -> None:
        """Add a try for each recipient of a transaction, refused ones included.

        The commands up to event `until` belong to it; `end` is number and time of the session's end. A reply before event
        `known_before` was surely read by the client. A `HopConnection` is added in place of a try where the message is not known,
        and besides it where the transaction broke off, perhaps before the RCPT of another recipient.
        """
        context = self.facts.context
        exchanges = [x for x in session.exchanges if sent.n <= x.command.n < until]
        first = {x.command.verb: x.reply for x in reversed(exchanges)}
        to_rcpt = {
            context.normalize_address(parse_path(x.command.line)): x.reply
            for x in exchanges
            if x.command.verb == "RCPT"
        }
        # a refused chunk before the last ends the transaction (RFC 3030 2); after an acceptance all the same, that one decides
        chunk = next(
            (
                x.reply
                for x in exchanges
                if x.command.verb == "BDAT" and not LAST_CHUNK.fullmatch(x.command.line)
                and x.reply is not None and x.reply.code >= 400 and sent.acceptance is None
            ),
            None,
        )  # fmt: skip
        final = {context.normalize_address(r.recipient): r for r in sent.replies if r.recipient is not None}
        is_first = sent is session.transactions[0]
        begun = self.find_begin(session) if is_first else (sent.n, sent.t)
        recipients = context.normalize_addresses((*sent.recipients, *sent.refused))
        garbled = None  # what a fault made of a command may have been refused for good
        if not recipients and session.name in self.facts.trace.altered_sessions:
            garbled = next((r for r in session.replies if sent.n < r.n < until and r.code // 100 == 5), None)
        for recipient in sorted(recipients) or [""]:
            replies = (first.get("MAIL"), to_rcpt.get(recipient), first.get("DATA"), chunk)
            refusal = next((reply for reply in replies if reply is not None and reply.code >= 400), garbled)
            decided = refusal or final.get(recipient) or next((r for r in sent.replies if r.recipient is None), None)
            ended = (decided.n, decided.t) if decided is not None else end
            name = sent.message or self._find_only_message(sent, recipient)
            contact = HopConnection(
                server=sent.server,
                n=begun[0],
                t=begun[1],
                end_n=ended[0],
                end_t=ended[1],
                refusal=refusal,
                is_unclear=self._is_session_unclear(session),
            )
            if name is None:
                self.hop_connections[sent.client].append(contact)
                continue
            is_known = decided is not None and decided.n < known_before
            self.tries[sent.client, name, recipient].append(
                Try(
                    transaction=sent,
                    reply=decided,
                    end_n=ended[0],
                    end_t=ended[1],
                    is_known=is_known,
                    is_unclear=contact.is_unclear,
                )
            )
            if decided is None and sent.dot_n is None:  # it broke off, perhaps before the RCPT of another recipient
                self.hop_connections[sent.client].append(contact)

    def _is_session_unclear(self, session: Session) -> bool:
        """Return whether a session is unclear: it went on behind STARTTLS, or a fault other than `mute` altered it."""
        if session.closed is not None and session.closed.how == "secured":
            return True
        faults = self.facts.faults_by_session.get(session.name, ())
        return any(fault.action in ALTERING_FAULTS - {"mute"} for fault in faults)

    def _find_only_message(self, sent: Transaction, recipient: str) -> str | None:
        """Return the name of the only message of which a transaction that broke off before its content can have been.

        None where none or several have its sender and recipient, and for a transaction with a content: that is of no message of the
        scenario.
        """
        if sent.dot_n is not None:
            return None  # its content is of no message of the scenario
        sender = self.facts.context.normalize_address(sent.sender)
        names = {name for n, name in self._handed.get((sent.client, sender, recipient), ()) if n < sent.n}
        return names.pop() if len(names) == 1 else None


def needs_smtputf8(*addresses: str) -> bool:
    """Return whether the local part of any address is not ASCII, so that it can be sent only with SMTPUTF8 (RFC 6531 3.2)."""
    return not all(address.rpartition("@")[0].isascii() for address in addresses)


def hidden_since(facts: Facts) -> dict[str, int]:
    """Return, by server, the event since which it may have been handed what the history does not show.

    That is the opening of the first session with it that a fault altered, or that went on behind STARTTLS. Other servers are left
    out.
    """
    return {
        session.server: session.n
        for session in reversed(list(facts.trace.sessions.values()))
        if session.name in facts.trace.altered_sessions
        or (session.closed is not None and session.closed.how == "secured")
    }


def sessions_from(facts: Facts, server: str) -> Iterator[Session]:
    """Yield the sessions that a server opened itself and in which the next hop answered EHLO or LHLO."""
    for (client, _), sessions in facts.sessions_by_client_and_server.items():
        if client == server:
            yield from (
                s for s in sessions if s.keywords is not None and facts.is_opened_by_tested_server(client, s.name)
            )
