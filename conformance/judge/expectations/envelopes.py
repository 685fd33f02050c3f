"""Checks that reverse-path, recipients, parameters and content of copies and transmissions are those of the message.

The parameters are compared with what the harness itself said when it gave the message to a server: those of MAIL and RCPT that
RFC 3461 (RET, ENVID, NOTIFY, ORCPT), RFC 6152 (BODY) and RFC 6531 (SMTPUTF8) define. A keyword that the receiver does not
offer excuses its parameters. `expected` is what the scenario's author wrote under the verb; `of` names the messages.
Addresses are compared by `normalize_address`: without regard to case in the domain and, for mailboxes of the topology, in
the local part.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
"""

from collections.abc import Iterator

from conformance.history.events import MessageMade
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import SameContentExpected
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction, decode_xtext, parse_path

_DSN, _EIGHT_BITS, _UTF8 = "DSN", "8BITMIME", "SMTPUTF8"
_KEYWORDS = {"RET": _DSN, "ENVID": _DSN, "NOTIFY": _DSN, "ORCPT": _DSN, "BODY": _EIGHT_BITS, "SMTPUTF8": _UTF8}
"""The parameters that are compared, and the EHLO keyword of the extension that defines each."""

Parameters = dict[str, dict[str, str]]
"""Recipient ('' for those of MAIL) -> parameter -> value."""


@expectation_check(SameContentExpected, rows_by_kind={"": frozenset({"SR-CRE-06", "RL-CNT-01", "SR-SFN-05"})})
def same_content(expected: SameContentExpected, context: ExpectationContext) -> Finding:
    """Check each shadow copy, or each transmission to `to`, against the message, trace fields aside.

    A copy has all recipients of the message, a transmission some of them. Only transmissions by servers under test count. Each
    is an occasion; none confirms, so no times are compared.
    """
    what = f"transmissions of {expected.of} to {expected.to}" if expected.to else f"shadows of {expected.of}"
    finding = Finding(f"{what} with the same envelope and content")
    for message in context.messages(expected.of):
        for subject, sent in _transactions_to_compare(expected, context, message):
            finding.occasions += 1
            finding.evidence.append(sent.n)
            for difference in _differences(context, message, sent, in_part=expected.to is not None):
                finding.add_message_violation(message, f"{subject} {difference}", sent.n)
    return finding


def _transactions_to_compare(
    expected: SameContentExpected, context: ExpectationContext, message: MessageMade
) -> Iterator[tuple[str, Transaction]]:
    """Yield the transactions to compare with a message, each with words that name it: shadow copies or, with `to`, transmissions there.

    The words begin the sentence of a violation.
    """
    if expected.to is None:
        for copy in context.trace.copies_of(message.message):
            yield f"the shadow on {copy.holder}", copy.transaction
        return
    for sent in context.trace.transactions_of(message.message):
        if sent.server == expected.to and sent.kind != "shadow" and context.is_tested_server(sent.client):
            yield f"what {sent.client} sent to {sent.server}", sent


def _differences(
    context: ExpectationContext, message: MessageMade, sent: Transaction, *, in_part: bool
) -> Iterator[str]:
    """Yield in words how a transaction differs from the message; with `in_part` it need not have all recipients.

    Parameters are compared with those of the first transaction of the harness that gave the message to a server; without such a
    transaction they are not compared.
    """
    assert sent.digest is not None
    if sent.digest.stable_sha256 != message.digest.stable_sha256:  # hashes without trace fields
        yield "has other content"
    if context.normalize_address(sent.sender) != context.normalize_address(message.sender):
        yield f"is from <{sent.sender}>, not <{message.sender}>"
    recipients, wanted = (sorted(map(context.normalize_address, r)) for r in (sent.recipients, message.recipients))
    if not set(recipients) <= set(wanted) if in_part else recipients != wanted:
        yield f"is for {', '.join(sent.recipients)}, not {', '.join(message.recipients)}"
    given = next(
        (t for t in context.trace.transactions_of(message.message) if not context.is_tested_server(t.client)), None
    )
    if given is None:
        return
    offered = context.trace.sessions[sent.session].keywords or frozenset()
    here, there = _parameters_of(context, sent), _parameters_of(context, given)
    for where in ["", *recipients]:
        for name, keyword in _KEYWORDS.items():
            has, had = here.get(where, {}).get(name, ""), there.get(where, {}).get(name, "")
            if keyword in offered and has != had:
                yield f"has {name}={has or 'nothing'}, not {had or 'nothing'}" + (f" for {where}" if where else "")


def _parameters_of(context: ExpectationContext, sent: Transaction) -> Parameters:
    """Return the parameters of a transaction: by recipient those of RCPT, and under '' those of MAIL.

    Those that mean the same as none are left out, such as BODY=7BIT.
    """
    found: Parameters = {}
    until = sent.dot_n if sent.dot_n is not None else sent.n
    for exchange in context.trace.sessions[sent.session].exchanges:
        command = exchange.command
        if command.verb in ("MAIL", "RCPT") and sent.n <= command.n <= until:
            path = parse_path(command.line)
            where = "" if command.verb == "MAIL" else context.normalize_address(path)
            found[where] = dict(_normalized_parameters(command.line.partition(">")[2], path))
    return found


def _normalized_parameters(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of the parameters in `text`, the rest of a command after its path; names and keywords in capitals.

    Parameters that `_KEYWORDS` does not have are left out, and so are BODY=7BIT and an ORCPT that is the recipient's own address
    `path`, since these mean the same as no parameter.
    """
    for word in text.split():
        name, _, value = word.partition("=")
        match name.upper():
            case "NOTIFY":
                yield "NOTIFY", ",".join(sorted(value.upper().split(",")))
            case "RET":
                yield "RET", value.upper()
            case "BODY" if value.upper() != "7BIT":
                yield "BODY", value.upper()
            case "SMTPUTF8":
                yield "SMTPUTF8", "yes"
            case "ORCPT" if (
                decode_xtext(value).lower() != f"rfc822;{path}".lower()
            ):  # a relay may add that (RFC 3461 4.2)
                yield "ORCPT", value
            case "ENVID":
                yield "ENVID", value
