"""Judges that the envelope is passed on: recipients of shadow copies, and parameters of MAIL and RCPT in each transmission.

A shadow server may have to deliver the message one day, so its copy must have the envelope of the message (SR-CRE-06), and so must
what it sends when it promotes the copy. Whatever else a server sends is judged by RL-CNT-01. The parameters are NOTIFY, ORCPT, RET
and ENVID (RFC 3461 5.2), BODY (RFC 6152), SMTPUTF8 (RFC 6531). SIZE and AUTH are of the one transmission only. A parameter can be
passed on only where the keyword for it was offered. Two forms of one value are equal: BODY=7BIT and no BODY, an ORCPT that names
the recipient itself and none (RFC 3461 4.2 lets a relay add one). A transmission is compared with the transactions by which its
client was given the message, by a sender or as a copy that it promoted; `content` compares content and reverse-path with the
message as made.

`sent` is the transaction that is judged, `given` are those by which its client was given the message. In a transaction MAIL is
event `n`, the final dot `dot_n`; `refused` are the recipients whose RCPT was refused, `recipients` the others; kind `shadow` hands
over a shadow copy. Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A session is *altered* where a fault changed, added or removed
octets in it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from conformance.history.events import MessageMade
from conformance.model.facts import Facts
from conformance.model.relaying import needs_smtputf8
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.context import is_relay_only
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction, decode_xtext, parse_path

_OFFERED_BY = {
    "NOTIFY": "DSN",
    "ORCPT": "DSN",
    "RET": "DSN",
    "ENVID": "DSN",
    "BODY": "8BITMIME",
    "SMTPUTF8": "SMTPUTF8",
}
"""The keyword of the EHLO reply under which each parameter may be sent."""

Envelope = Mapping[str, frozenset[str]]
"""The parameters of MAIL under '', those of RCPT under each recipient; each as `NAME=VALUE`."""


@rule("SR-CRE-06", "RL-CNT-01", timed=False)
def envelope_is_passed_on(facts: Facts) -> Finding:
    """Check that each transmission has the envelope of a transaction by which its client was given the message before.

    Of a shadow copy recipients and parameters are compared; after a request to send messages again it may be for fewer recipients.
    Of any other transmission only the parameters are compared: `content` judges its recipients. SR-CRE-06 is blamed for shadow
    copies, and for what a server has as a copy only. Left out are transmissions where a fault altered their session or one in
    which the client was given the message, and relays without shadow redundancy: RFC 3461 binds only those that offer DSN.
    """
    finding = Finding("transmissions with the envelope of the message")
    if is_relay_only(facts.context.claims):
        return finding
    altered = facts.trace.altered_sessions
    for name, message in facts.trace.messages.items():
        transactions = facts.trace.transactions_of(name)
        given_to: dict[str, list[Transaction]] = {}
        for one in transactions:
            given_to.setdefault(one.server, []).append(one)
        for sent in transactions:
            if not facts.is_opened_by_tested_server(sent.client, sent.session) or sent.session in altered:
                continue
            given = [g for g in given_to.get(sent.client, ()) if g.n < sent.n]
            if not given or any(g.session in altered for g in given):
                continue
            offered = facts.trace.sessions[sent.session].keywords or frozenset()
            if sent.kind != "shadow" and (_is_ascii(message) or needs_smtputf8(message.sender, *message.recipients)):
                offered -= {"SMTPUTF8"}  # what needs it is judged by RL-UTF-01
            copy = _envelope_of(facts, sent, offered)
            envelopes = [_envelope_of(facts, one, offered) for one in given]
            if sent.kind != "shadow":
                envelopes = [{where: one[where] for where in copy} for one in envelopes if copy.keys() <= one.keys()]
            elif is_resending_requested(
                facts, before_n=sent.n
            ):  # Safety Net sends it again for the recipients of one database
                envelopes = [{where: one[where] for where in copy if where in one} for one in envelopes]
            finding.occasions += bool(envelopes)
            if envelopes and copy not in envelopes:
                what = f"the shadow copy {sent.shadow_id}" if sent.kind == "shadow" else "it"
                is_of_copy = sent.kind == "shadow" or all(g.kind == "shadow" for g in given)
                finding.add_message_violation(
                    message,
                    f"{sent.client} sent {what} to {sent.server} {_format_difference(copy, envelopes[-1])}",
                    sent.n,
                    given[-1].n,
                    row="SR-CRE-06" if is_of_copy else "RL-CNT-01",
                )
    return finding


@rule("RL-CNT-01", timed=False)
def other_content_keeps_its_envelope(facts: Facts) -> Finding:
    """Check the envelope of content that is of no message of the scenario, such as that of a conversation written line by line.

    A server passes it on with the reverse-path, the recipients and the parameters of a transaction by which it was handed the same
    content before (RFC 5321 3.3). Left out are reports and sessions that a fault altered. Of relays without shadow redundancy the
    parameters are not compared: RFC 3461 binds only those that offer DSN.
    """
    finding = Finding("content of no message of the scenario, with the envelope that came with it")
    handed: dict[tuple[str, str], list[Transaction]] = defaultdict(list)
    for sent in facts.trace.transactions:
        if sent.digest is None or sent.message is not None or sent.digest.report is not None:
            continue
        given = handed[sent.client, sent.digest.stable_sha256]
        is_unaltered = not facts.trace.altered_sessions & {sent.session, *(one.session for one in given)}
        if given and is_unaltered and facts.is_opened_by_tested_server(sent.client, sent.session):
            finding.occasions += 1
            if problem := _difference_from_given(facts, sent, given):
                subject = f"{sent.client} sent {sent.server} the content of session {given[-1].session}"
                finding.add_violation(f"{subject} {problem}", given[-1].n, sent.n)
        handed[sent.server, sent.digest.stable_sha256].append(sent)
    return finding


def _difference_from_given(facts: Facts, sent: Transaction, given: list[Transaction]) -> str:
    """Return in words what of a transmission's envelope is in none of those with which its client was given the content.

    '' stands for no difference, also where no single one of `given` has all recipients of the transmission: then parameters are
    not compared. Nor are they for a relay without shadow redundancy.
    """
    normalize = facts.context.normalize_addresses
    if not normalize([sent.sender]) & normalize(one.sender for one in given):
        return f"from <{sent.sender}>, with whom it did not come"
    if unexpected := normalize(sent.recipients) - normalize(who for one in given for who in one.recipients):
        return f"for {min(unexpected)}, which is not one of its recipients"
    if is_relay_only(facts.context.claims):
        return ""
    offered = (facts.trace.sessions[sent.session].keywords or frozenset()) - {"SMTPUTF8"}
    copy = _envelope_of(facts, sent, offered)
    envelopes = [_envelope_of(facts, one, offered) for one in given]
    envelopes = [{where: one[where] for where in copy} for one in envelopes if copy.keys() <= one.keys()]
    return "" if copy in envelopes or not envelopes else _format_difference(copy, envelopes[-1])


def _is_ascii(message: MessageMade) -> bool:
    """Return whether addresses and content of a message are all ASCII: a client that passes it on should not say SMTPUTF8 then.

    Such a message needs none (RFC 6531 3.4). False proves nothing: eight-bit content alone may do without it.
    """
    return not message.digest.eight_bit and all(map(str.isascii, (message.sender, *message.recipients)))


def _envelope_of(facts: Facts, transaction: Transaction, offered: frozenset[str]) -> Envelope:
    """Return the parameters of MAIL under '', and those of RCPT under each recipient, normalized, up to the final dot.

    A parameter is left out if its EHLO keyword is not in `offered`. Recipients that were refused are left out, except of a shadow
    copy.
    """
    normalize = facts.context.normalize_address
    wanted = {normalize(r) for r in transaction.recipients}
    if transaction.kind == "shadow":
        wanted |= {normalize(r) for r in transaction.refused}
    found: dict[str, frozenset[str]] = {}
    exchanges = facts.trace.sessions[transaction.session].exchanges
    first = bisect_left(exchanges, transaction.n, key=lambda exchange: exchange.command.n)
    for exchange in islice(exchanges, first, None):
        command = exchange.command
        if command.n >= (transaction.dot_n or facts.end_n):
            break
        if command.verb == "MAIL":
            found[""] = _parameters_to_pass_on(command.line, offered)
        elif command.verb == "RCPT" and (recipient := normalize(parse_path(command.line))) in wanted:
            found[recipient] = _parameters_to_pass_on(command.line, offered)
    return found


def _parameters_to_pass_on(line: str, offered: frozenset[str]) -> frozenset[str]:
    """Return the parameters of a MAIL or RCPT line that are to be passed on, as `NAME=VALUE`; unknown ones are left out.

    Names are in capitals, and so are values, except those of ENVID and ORCPT. The values of NOTIFY are sorted. Without a value it
    is `NAME=`. A parameter is left out if its EHLO keyword is not in `offered`.
    """
    found = set()
    for word in line.partition(">")[2].split():
        name, _, value = word.partition("=")
        name = name.upper()
        keyword = _OFFERED_BY.get(name)
        if keyword is None or keyword not in offered or (name, value.upper()) == ("BODY", "7BIT"):
            continue
        if name == "ORCPT" and decode_xtext(value).partition(";")[2].casefold() == parse_path(line).casefold():
            continue
        if name == "NOTIFY":
            value = ",".join(sorted(value.upper().split(",")))
        found.add(f"{name}={value if name in ('ENVID', 'ORCPT') else value.upper()}")
    return frozenset(found)


def _format_difference(copy: Envelope, given: Envelope) -> str:
    """Return how the envelope `copy` of a transmission differs from `given`: `without NOTIFY=NEVER for <recipient>`.

    The two must differ. A recipient that is missing comes first, then one too many, else the parameters of MAIL or of the first
    recipient that differ.
    """
    if missing := sorted(set(given) - set(copy)):
        return f"without the recipient {missing[0]}"
    if more := sorted(set(copy) - set(given)):
        return f"for {more[0]} too"
    where = next(name for name in given if given[name] != copy[name])
    words = [f"without {' '.join(sorted(given[where] - copy[where]))}"] if given[where] - copy[where] else []
    words += [f"with {' '.join(sorted(copy[where] - given[where]))}"] if copy[where] - given[where] else []
    return " and ".join(words) + (f" for {where}" if where else "")
