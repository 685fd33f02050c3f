"""Judges what a relay does with the DSN extension (RFC 3461): parameters passed on, and reports as they were asked for.

A *request* is what a server was asked for with a message: the parameters RET and ENVID of MAIL, NOTIFY and ORCPT of each RCPT.
The rows bind a server that offers DSN in its reply to EHLO, in the session in which it took the message. A server to which a
message was handed several times may follow any of the requests. A *report* is a delivery status notification; its *origin* is the
server that made it, each of its *actions* what happened to a recipient: `delivered`, `relayed`, `expanded` (successes), `failed`
or `delayed`. Recipients that are keys are normalized. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final
dot (None before it), and `message` the scenario's name of the message or None. Its `kind` is `shadow` (a copy that the server is
to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a
fault changed, added or removed octets in it. `claims` are the capabilities that the candidate claims.

Records: `Relaying` has, by server, message and recipient, each `Try` (the server tried to pass the message on; `outcome` is the
first digit of the reply that decided, `end_n` the event of its end).
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.history.events import Command
from conformance.model.facts import Facts
from conformance.model.relaying import Relaying, Try
from conformance.model.reports import may_be_under_way, was_refused_a_report
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction, decode_xtext, parse_path

_MAIL, _RCPT = ("RET", "ENVID"), ("NOTIFY", "ORCPT")
_SUCCESSES = frozenset({"delivered", "relayed", "expanded"})
_ANY = re.compile(r" (?:NOTIFY|ORCPT|RET|ENVID)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The parameters of DSN of one transaction: those of MAIL, and by normalized recipient those of RCPT; names in capitals."""

    transaction: Transaction
    mail: Mapping[str, str]
    recipients: Mapping[str, Mapping[str, str]]

    @property
    def is_empty(self) -> bool:
        """Whether the transaction has no parameter of DSN."""
        return not self.mail and not any(self.recipients.values())


def _uses_parameters(facts: Facts) -> bool:
    """Return whether any command of the history has a parameter of DSN: most histories have none."""
    return any(c.verb in ("MAIL", "RCPT") and _ANY.search(c.line) for c in facts.trace.events_of(Command))


class Requests:
    """The requests with which each server was handed each message: (server, message's name) -> requests in order.

    `Facts.compute_once(Requests)` makes one for a history. Where no command of the history has a parameter of DSN, all requests
    are empty.
    """

    def __init__(self, facts: Facts) -> None:
        """Collect the requests of the sessions in which a server under test offered DSN and was sent a whole message."""
        self._is_used = facts.compute_once(_uses_parameters)
        self.by_server_and_message: Mapping[tuple[str, str], list[_Parameters]] = defaultdict(list)
        for given in facts.trace.transactions:
            if given.message is None or given.dot_n is None or not facts.is_tested_server(given.server):
                continue
            if "DSN" in (facts.trace.sessions[given.session].keywords or ()):
                self.by_server_and_message[given.server, given.message].append(
                    _parameters_of(facts, given)
                    if self._is_used
                    else _Parameters(transaction=given, mail={}, recipients={})
                )

    def requests_before(self, server: str, name: str, n: int) -> list[_Parameters]:
        """Return the requests with which a server was handed a message in transactions whose MAIL came before event `n`; [] for none."""
        return [one for one in self.by_server_and_message.get((server, name), ()) if one.transaction.n < n]

    def notify_values(self, server: str, name: str, recipient: str, n: int) -> list[frozenset[str]]:
        """Return the keywords of NOTIFY for a recipient in each request before event `n`; the empty set where its RCPT had none.

        `recipient` is normalized. Requests that do not name it are left out; where no command of the history has a parameter of
        DSN, all count.
        """
        requests = self.requests_before(server, name, n)
        if not self._is_used:
            return [frozenset()] * len(requests)
        asked = (one.recipients.get(recipient) for one in requests)
        return [frozenset(filter(None, one.get("NOTIFY", "").split(","))) for one in asked if one is not None]


def _parameters_of(facts: Facts, sent: Transaction) -> _Parameters:
    """Return the parameters of DSN in the commands MAIL and RCPT of a transaction, refused ones included."""
    exchanges = facts.trace.sessions[sent.session].exchanges
    end = facts.end_n if sent.dot_n is None else sent.dot_n
    mail: dict[str, str] = {}
    recipients: dict[str, dict[str, str]] = {}
    for exchange in exchanges[bisect_left(exchanges, sent.n, key=lambda x: x.command.n) :]:
        command = exchange.command
        if command.n >= end:
            break
        if command.verb == "MAIL":
            mail = dict(_parse_parameters(command.line, _MAIL))
        elif command.verb == "RCPT":
            recipients[facts.context.normalize_address(parse_path(command.line))] = dict(
                _parse_parameters(command.line, _RCPT)
            )
    return _Parameters(transaction=sent, mail=mail, recipients=recipients)


def _parse_parameters(line: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield name and value of those parameters of a command line that are in `names`; the name in capitals.

    Values of NOTIFY and RET are in capitals, and their keywords sorted; other values are as they were said.
    """
    for word in line.partition(">")[2].split():
        name, _, value = word.partition("=")
        if (name := name.upper()) in names:
            yield name, ",".join(sorted(value.upper().split(","))) if name in ("NOTIFY", "RET") else value


@rule("RL-DSN-03", timed=False)
def parameters_are_passed_on(facts: Facts) -> Finding:
    """Check that each message is passed on with the parameters that it came with, and without any where DSN is not offered.

    Those of any request are right, and a relay may add an ORCPT (RFC 3461 5.2.1 d). Sessions that a fault altered, and shadow
    copies (SR-CRE-06), are not judged.
    """
    finding = Finding("the parameters of DSN are passed on to a next hop that offers DSN, and to no other")
    if not facts.compute_once(_uses_parameters):
        return finding
    requests = facts.compute_once(Requests)
    altered = facts.trace.altered_sessions
    for sent in facts.trace.transactions:
        if (
            sent.message is None
            or sent.kind == "shadow"
            or not facts.is_opened_by_tested_server(sent.client, sent.session)
        ):
            continue
        asked = requests.requests_before(sent.client, sent.message, sent.n)
        if not asked or sent.session in altered or any(one.transaction.session in altered for one in asked):
            continue
        said = _parameters_of(facts, sent)
        finding.occasions += any(not one.is_empty for one in asked)
        if "DSN" not in (facts.trace.sessions[sent.session].keywords or ()):
            problem = "" if said.is_empty else "with parameters of DSN, which it does not offer"
        else:
            problem = _format_difference(said, asked)
        if problem:
            finding.add_message_violation(
                facts.trace.messages[sent.message], f"{sent.client} passed it on to {sent.server} {problem}", sent.n
            )
    return finding


def _format_difference(said: _Parameters, asked: list[_Parameters]) -> str:
    """Return how the parameters of a transaction differ from those of every request, in words; '' where they do not."""
    if all(said.mail != one.mail for one in asked):
        return f"with {_format_parameters(said.mail)} in MAIL, and was given {_format_parameters(asked[-1].mail)}"
    for recipient, words in said.recipients.items():
        given = [one.recipients[recipient] for one in asked if recipient in one.recipients]
        if given and not any(_is_passed_on(words, one) for one in given):
            return f"with {_format_parameters(words)} for {recipient}, and was given {_format_parameters(given[-1])}"
    return ""


def _is_passed_on(words: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Return whether the parameters of a RCPT are those given; where no ORCPT was given, one may be added."""
    kept = words if "ORCPT" in given else {name: value for name, value in words.items() if name != "ORCPT"}
    return kept == given


def _format_parameters(words: Mapping[str, str]) -> str:
    """Return parameters as they are written in a command."""
    return " ".join(f"{name}={value}" for name, value in words.items()) or "none"


@dataclass(frozen=True, slots=True)
class _Report:
    """A delivery status notification at the server that made it, about one message of the scenario."""

    origin: str
    transaction: Transaction
    message: str
    actions_and_recipients: tuple[tuple[str, str], ...]
    """Each action with the recipient."""


class StatusReports:
    """The delivery status notifications of a history, each once, about messages whose Message-ID no other message has.

    `Facts.compute_once(StatusReports)` makes one for a history: `all` has the reports in unaltered sessions, `altered` the
    others.
    """

    def __init__(self, facts: Facts) -> None:
        """Collect the reports at their origins: the servers under test that sent them first, and were not sent them.

        The holder of a shadow copy of a report is no origin of it; sending a copy does not count as sending the report.
        """
        self.all: list[_Report] = []
        self.altered: list[_Report] = []
        names: dict[str, list[str]] = defaultdict(list)
        for message in facts.trace.messages.values():
            if message.message_id:
                names[message.message_id].append(message.message)
        seen: set[tuple[str, str]] = set()
        for sent in facts.trace.transactions:
            digest = sent.digest
            if digest is None or digest.report != "delivery-status":
                continue
            if sent.kind == "shadow":  # the holder may take it over, and is not its origin then
                seen.add((sent.server, digest.body_sha256))
                continue
            known = (sent.client, digest.body_sha256) in seen
            seen |= {(sent.client, digest.body_sha256), (sent.server, digest.body_sha256)}
            about = names.get(digest.about or "", [])
            if known or len(about) != 1 or not facts.is_opened_by_tested_server(sent.client, sent.session):
                continue
            words = (word.partition(" ") for word in digest.reported)
            said = dict.fromkeys((action, facts.context.normalize_address(to)) for action, _, to in words)
            kept = self.altered if sent.session in facts.trace.altered_sessions else self.all
            kept.append(
                _Report(origin=sent.client, transaction=sent, message=about[0], actions_and_recipients=tuple(said))
            )


@rule("RL-DSN-04", "RL-DSN-06", timed=False)
def reports_are_asked_for(facts: Facts) -> Finding:
    """Check that nothing is reported which NOTIFY did not ask for, and no success for which the next hop is responsible.

    Without NOTIFY failures and delays may be reported, and successes must not. An occasion is a recipient who failed, or for whom
    a next hop accepted the message, where the last NOTIFY wants no report of that or the next hop is to make it. Reports in
    altered sessions are not judged.
    """
    finding = Finding("only what NOTIFY asks for is reported, by the last server that offers DSN")
    requests, relaying, reports = (
        facts.compute_once(Requests),
        facts.compute_once(Relaying),
        facts.compute_once(StatusReports),
    )
    for (server, name, recipient), tries in relaying.tries.items():
        for asked in requests.notify_values(server, name, recipient, tries[-1].transaction.n)[-1:]:
            ended = any(one.outcome == 5 and asked and "FAILURE" not in asked for one in tries)
            finding.occasions += ended or any(
                one.outcome == 2 and ("SUCCESS" not in asked or _offers_dsn(facts, one)) for one in tries
            )
    for report in reports.all:
        sent, message = report.transaction, facts.trace.messages[report.message]
        for action, recipient in report.actions_and_recipients:
            asked_for = requests.notify_values(report.origin, report.message, recipient, sent.n)
            if not asked_for:
                continue
            wanted = {"failed": "FAILURE", "delayed": "DELAY"}.get(action, "SUCCESS")
            given = f"NOTIFY={','.join(sorted(asked_for[-1]))}" if asked_for[-1] else "no NOTIFY"
            if all((asked or action in _SUCCESSES) and wanted not in asked for asked in asked_for):
                finding.add_message_violation(
                    message,
                    f"{report.origin} reported it {action} for {recipient}, who was given with {given}",
                    sent.n,
                    row="RL-DSN-04" if action not in _SUCCESSES or "NEVER" in asked_for[-1] else "RL-DSN-06",
                )
            elif action == "relayed":
                tries = relaying.tries.get((report.origin, report.message, recipient), [])
                accepted = [one for one in tries if one.outcome == 2 and one.end_n < sent.n]
                if accepted and all(_offers_dsn(facts, one) for one in accepted):
                    finding.add_message_violation(
                        message,
                        f"{report.origin} reported it relayed for {recipient}, though {accepted[-1].transaction.server} "
                        "offers DSN",
                        sent.n,
                        row="RL-DSN-06",
                    )
    return finding


def _offers_dsn(facts: Facts, one: Try) -> bool:
    """Return whether the next hop of a try offers DSN, so that it is itself responsible for reports of success."""
    return "DSN" in (facts.trace.sessions[one.transaction.session].keywords or ())


@rule("RL-DSN-05")
def relays_are_reported(facts: Facts) -> Finding:
    """Check that each recipient with NOTIFY=SUCCESS is reported once by the server that passed it to a next hop without DSN.

    No clause says how soon, so this is judged at the end of the drain; where the report may still wait for its own next hop, it
    is undecided. Only candidates that claim `dsn` are judged. Servers that were wiped, messages of which a server took a shadow
    copy over, and histories in which messages are sent again on request are left out. A server may report as often as it was
    handed the message, and any number of times if it stopped.
    """
    finding = Finding("what is passed on to a next hop without DSN is reported to a sender who asked for that")
    if "dsn" not in facts.context.claims or is_resending_requested(facts):
        return finding
    requests, relaying, reports = (
        facts.compute_once(Requests),
        facts.compute_once(Relaying),
        facts.compute_once(StatusReports),
    )
    reported: Mapping[tuple[str, str, str], set[str]] = defaultdict(set)
    altered = {
        (report.origin, report.message, to) for report in reports.altered for _, to in report.actions_and_recipients
    }
    for report in reports.all:
        for action, recipient in report.actions_and_recipients:
            if action in _SUCCESSES and report.transaction.digest is not None:
                body = report.transaction.digest.body_sha256
                reported[report.origin, report.message, recipient].add(body)
    for key, tries in relaying.tries.items():
        server, name, recipient = key
        message = facts.trace.messages[name]
        done = next((t for t in tries if t.outcome == 2 and not t.is_unclear and t.is_known), None)
        if done is None or not message.sender or not message.message_id or _offers_dsn(facts, done):
            continue
        asked = requests.notify_values(server, name, recipient, done.transaction.n)
        if not asked or not all("SUCCESS" in one for one in asked) or facts.promotions_by_message.get(name):
            continue
        if any(e.action == "wiped" and e.n > done.transaction.n for e in facts.node_events.get(server, ())):
            continue
        finding.occasions += 1
        assert done.reply is not None
        hop, sender = done.transaction.server, message.sender
        if len(reported[key]) > len(asked) and not facts.was_interrupted_between(server, 0, facts.end_n):
            sentence = f"{server} reported {len(reported[key])} times that it passed it on for {recipient}"
            finding.add_message_violation(message, sentence, done.reply.n)
        if reported[key] or key in altered or was_refused_a_report(facts, server, message, done.transaction.n):
            continue
        sentence = f"{server} passed it on to {hop} for {recipient}, and reported that to {sender} not at all"
        if may_be_under_way(facts, relaying, server, message, done.end_n):
            finding.add_undecided(f"{sentence} so far", done.reply.n, message=message)
        else:
            finding.add_message_violation(message, sentence, done.reply.n)
    return finding


@rule("RL-DSN-07", timed=False)
def reports_name_what_the_sender_named(facts: Facts) -> Finding:
    """Check that a report has the envelope id and the original recipients that the sender gave (RFC 3461 6.3).

    A report that lacks one, or has another value, is a violation only if every request has an ENVID, or an ORCPT for that recipient.
    The value of any request is right.
    """
    finding = Finding("a report names the sender's envelope id and original recipients")
    requests = facts.compute_once(Requests)
    for report in facts.compute_once(StatusReports).all:
        sent, digest = report.transaction, report.transaction.digest
        asked = requests.requests_before(report.origin, report.message, sent.n)
        if not asked or digest is None:
            continue
        message = facts.trace.messages[report.message]
        ids = {one.mail.get("ENVID") for one in asked}
        finding.occasions += ids != {None}
        if None not in ids and digest.envelope_id not in {decode_xtext(one) for one in ids if one is not None}:
            finding.add_message_violation(
                message, f"{report.origin} reported it with {digest.envelope_id!r} for the ENVID {ids}", sent.n
            )
        for _, recipient in report.actions_and_recipients:
            given = {one.recipients[recipient].get("ORCPT") for one in asked if recipient in one.recipients}
            finding.occasions += bool(given - {None})
            if (
                given
                and None not in given
                and not {_decoded(str(one)) for one in given} & {*map(_normalized, digest.originals)}
            ):
                finding.add_message_violation(
                    message, f"{report.origin} reported {recipient} without the ORCPT {given}", sent.n
                )
    return finding


def _decoded(xtext: str) -> str:
    """Return xtext (RFC 3461 4) as the text that it stands for, in the form of `_normalized`."""
    return _normalized(decode_xtext(xtext))


def _normalized(text: str) -> str:
    """Return a typed address with its type in lower case, without the blanks around both; what has no `;` stays as it is."""
    kind, semicolon, address = text.partition(";")
    return f"{kind.strip().lower()};{address.strip()}" if semicolon else text
