"""Judges the contents of reports of delivery status: their form (RL-DSN-08), and what they return of the message (RL-DSN-09).

The link that records a report parses it: `form_problem` of its digest says what it lacks of the form, '' for nothing; `returned`
whether it has the whole message or its header, None for neither. A report is judged at the server that made it (`origin`). A
*request* has the parameters of DSN with which that server was given the message (`relay_notifications`).

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times).
"""

from conformance.model.facts import Facts
from conformance.model.relay_notifications import Requests, StatusReports
from conformance.model.rules import rule
from conformance.trace.finding import Finding

_LARGE = 64 * 1024
"""Octets of a message of which a server may return the header only, whatever was asked (RFC 3461 6.2)."""


@rule("RL-DSN-08", timed=False)
def reports_have_their_form(facts: Facts) -> Finding:
    """Check that each multipart/report has what RFC 3464 requires, with a status code that fits its action.

    A report in another form informs the sender too (RFC 5321 6.1), and is not judged here.
    """
    finding = Finding("reports of delivery status in the form of RFC 3464")
    for report in facts.compute_once(StatusReports).all:
        digest = report.transaction.digest
        assert digest is not None
        finding.occasions += 1
        if digest.form_problem:
            finding.add_message_violation(
                facts.trace.messages[report.message],
                f"{report.origin} sent a report of it, and {digest.form_problem}",
                report.transaction.n,
            )
    return finding


@rule("RL-DSN-09", timed=False)
def reports_return_what_was_asked_for(facts: Facts) -> Finding:
    """Check that a report returns the header only for RET=HDRS, or if nothing failed; and for RET=FULL the whole message.

    A large message may be cut to its header, and so may one with eight-bit octets, since the next hop may not take it. A report
    that returns nothing is no violation. One of a failure is not judged where the requests have no RET, or different ones; none is
    judged whose origin was handed the message only in sessions in which it did not offer DSN.
    """
    finding = Finding("reports return what RET asks for")
    requests = facts.compute_once(Requests)
    for report in facts.compute_once(StatusReports).all:
        digest, message = report.transaction.digest, facts.trace.messages[report.message]
        assert digest is not None
        asked = {
            one.mail.get("RET") for one in requests.requests_before(report.origin, report.message, report.transaction.n)
        }
        has_failed = any(action == "failed" for action, _ in report.actions_and_recipients)
        if asked == {"HDRS"} or (asked and not has_failed):
            wanted = "header"
        elif asked == {"FULL"} and not message.digest.eight_bit and message.digest.size < _LARGE:
            wanted = "message"
        else:
            continue
        finding.occasions += 1
        if digest.returned is not None and digest.returned != wanted:
            finding.add_message_violation(
                message,
                f"{report.origin} returned its {digest.returned} in a report, where its {wanted} was due",
                report.transaction.n,
            )
    return finding
