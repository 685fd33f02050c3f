"""Judges AUTH (RFC 4954) at a server that offers it: its order, its challenges, and what follows a failure (group AUT).

The rules go by the conversations of the scenario (`Talked`): within TLS, where most servers offer AUTH, the link sees encrypted
octets only. A server *offers* AUTH while the last reply to EHLO has the keyword. 421 is permitted in reply to AUTH and to a
response. A `TalkExchange` is a line that the harness `said` and the reply's `code`, None without one; `closed`: the server closed
the connection instead.

`n` is an event's number. Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail)
and violations, as `conformance.model` describes (`timed=False`: it compares no times).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from conformance.history.events import Talked
from conformance.history.values import TalkExchange
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding

_ENDS_TRANSACTION = frozenset({"RSET", "EHLO", "HELO"})
_CLOSING = 421
"""The reply of a server that shuts down, which may answer any command (RFC 5321 3.8)."""

_CANCELLED = "*"
_UNDECODABLE = "!"
"""A response that begins so is not Base64 (RFC 4648 4)."""


@dataclass(frozen=True, slots=True)
class _Said:
    """An exchange of a conversation in which AUTH is offered.

    `within`: the line is a response, behind a 334. `authenticated`: AUTH has succeeded before. `amid`: a MAIL was accepted,
    and neither RSET, EHLO, HELO, STARTTLS nor a content that got 250, or any reply after 354, came since. `plain`: PLAIN is
    among the mechanisms that are offered.
    `next` is the exchange that follows, None for the last one.
    """

    event: Talked
    exchange: TalkExchange
    within: bool
    authenticated: bool
    amid: bool
    plain: bool
    next: TalkExchange | None

    @property
    def line(self) -> str:
        """The line, in upper case."""
        return self.exchange.said.upper()

    @property
    def is_answered(self) -> bool:
        """Whether the server has answered, with another code than 421; False too where it gave no reply."""
        return self.exchange.code not in (None, _CLOSING)


def _exchanges(facts: Facts) -> Iterator[_Said]:
    """Yield each exchange at which AUTH is offered, from all conversations with servers under test.

    AUTH is offered from the exchange after an EHLO whose 250 has the keyword, until STARTTLS gets 220 or an EHLO gets 250 without it.
    """
    for event in facts.trace.events_of(Talked):
        if not facts.is_tested_server(event.server):
            continue
        offered = within = authenticated = amid = awaited = plain = False
        for number, exchange in enumerate(event.exchanges):
            verb = exchange.said.upper().partition(" ")[0]
            following = event.exchanges[number + 1] if number + 1 < len(event.exchanges) else None
            if offered:
                yield _Said(event, exchange, within, authenticated, amid, plain, following)
            if verb == "EHLO" and not within and exchange.code == 250:
                words = exchange.text.upper().split()
                offered, plain = "AUTH" in words, "PLAIN" in words
            elif verb == "STARTTLS" and exchange.code == 220:
                offered = authenticated = amid = False
            within = exchange.code == 334
            authenticated = authenticated or exchange.code == 235
            if verb == "MAIL":
                amid = exchange.code == 250
            elif verb in _ENDS_TRANSACTION or (_is_content(exchange) and exchange.code == 250):
                amid = False
            elif awaited and _is_content(exchange) and exchange.code is not None:
                amid = False  # refused or not, its content ends the transaction (RFC 5321 4.1.1.4)
            awaited = exchange.code == 354 or (awaited and exchange.code is None)


def _is_content(exchange: TalkExchange) -> bool:
    """Return whether a message or octets were sent in the exchange, and no line: `(m#1)` or nothing stands for them."""
    return not exchange.said or exchange.said.startswith("(")


@rule("RL-AUT-01", timed=False)
def auth_is_taken_once_and_between_messages(facts: Facts) -> Finding:
    """Check that AUTH is answered with 503 after a success, and amid a mail transaction."""
    finding = Finding("AUTH is refused with 503 after a success and amid a transaction")
    for one in _exchanges(facts):
        if one.within or not one.line.startswith("AUTH ") or not (one.authenticated or one.amid) or not one.is_answered:
            continue
        finding.occasions += 1
        if one.exchange.code != 503:
            why = "after AUTH had succeeded" if one.authenticated else "amid a mail transaction"
            finding.add_violation(f"{one.event.server} answered AUTH {why} with {one.exchange.code}", one.event.n)
    return finding


@rule("RL-AUT-02", timed=False)
def a_failed_exchange_ends_alone(facts: Facts) -> Finding:
    """Check that a cancelled or undecodable response gets 501, and that a failed AUTH leaves the session open.

    A response `*` cancels the exchange; one that is not Base64 cannot be decoded. After any refusal with 5yz the server must not
    close the session before it answers the next line, and must answer a NOOP there with 2yz, or with 421 as it shuts down.
    """
    finding = Finding("a failed AUTH is answered once, and the session goes on")
    for one in _exchanges(facts):
        code = one.exchange.code
        if one.within and one.is_answered and (one.line == _CANCELLED or one.line.startswith(_UNDECODABLE)):
            finding.occasions += 1
            if code != 501:
                what = "'*' in place of a response" if one.line == _CANCELLED else "a response that is not Base64"
                finding.add_violation(f"{one.event.server} answered {what} with {code}", one.event.n)
        if (one.within or one.line.startswith("AUTH ")) and one.is_answered and code is not None and code >= 500:
            if one.next is None or not one.next.said:
                continue
            finding.occasions += 1
            if one.next.closed:
                finding.add_violation(
                    f"{one.event.server} closed the session after it had answered AUTH with {code}", one.event.n
                )
            elif (
                one.next.said.upper() == "NOOP"
                and one.next.code is not None
                and one.next.code // 100 != 2
                and one.next.code != _CLOSING
            ):
                finding.add_violation(
                    f"{one.event.server} answered NOOP with {one.next.code}, after it had answered AUTH with {code}",
                    one.event.n,
                )
    return finding


@rule("RL-AUT-03", timed=False)
def the_client_is_asked_for_its_response(facts: Facts) -> Finding:
    """Check that AUTH PLAIN without an initial response is answered with 334, and with an empty one (`=`) is not.

    For the first, 235, 500, 501, 502 and 535 are violations; for the second, 334 and 235. Other codes refuse for another reason.
    Only lines before AUTH has succeeded, and outside of mail transactions, are judged, and only where PLAIN is offered.
    """
    finding = Finding("AUTH asks for a response where there is none, and takes `=` for an empty one")
    for one in _exchanges(facts):
        if one.within or one.authenticated or one.amid or not one.plain or not one.is_answered:
            continue
        code = one.exchange.code
        if one.line == "AUTH PLAIN":
            finding.occasions += 1
            if code in (235, 500, 501, 502, 535):
                finding.add_violation(
                    f"{one.event.server} answered AUTH PLAIN with {code}, and not with 334", one.event.n
                )
        elif one.line == "AUTH PLAIN =":
            finding.occasions += 1
            if code in (235, 334):
                finding.add_violation(
                    f"{one.event.server} answered AUTH PLAIN with an empty response with {code}", one.event.n
                )
    return finding
