"""Judges that mail for a server's own mailboxes goes into its mailbox store, and not to another server (SR-BIF-02).

No server is closer to a mailbox than the one that has it. `routes` judges the way there. A server whose queues are redirected
hands everything on, and one whose mailbox databases have moved may not know it yet, so what follows either is not judged. A route
for the recipient's domain goes before all this.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, and `recipients` those that were not refused. Its `kind` is `shadow` (a copy that the server is to hold, 2013
and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`.
"""

from conformance.model.facts import Facts
from conformance.model.routes import SiteMap, end_of_judgement
from conformance.model.rules import rule
from conformance.trace.finding import Finding


@rule("SR-BIF-02", timed=False)
def own_mailboxes_get_their_mail(facts: Facts) -> Finding:
    """Check that a server gives a message for a mailbox of its own to its store, and to no other server under test.

    Each transmission with such a recipient, refused ones included, is an occasion, up to the first redirection of queues or move of
    a mailbox database (`end_of_judgement`). Shadow copies, and sessions that the harness opened, are left out.
    """
    finding = Finding("mail for a server's own mailboxes given to its mailbox store")
    sites, end = SiteMap.of(facts), end_of_judgement(facts)
    for name, message in facts.trace.messages.items():
        for sent in facts.trace.transactions_of(name):
            if (
                sent.kind == "shadow"
                or sent.n >= end
                or not facts.is_opened_by_tested_server(sent.client, sent.session)
            ):
                continue
            own = [
                recipient
                for recipient in (*sent.recipients, *sent.refused)
                if sites.host(recipient) == sent.client and not sites.has_own_route(sent.client, recipient)
            ]
            finding.occasions += bool(own)
            if own and sent.server != sent.client and facts.is_tested_server(sent.server):
                finding.add_message_violation(
                    message,
                    f"{sent.client} sent it to {sent.server} for {own[0]}, whose mailbox it has itself",
                    sent.n,
                )
    return finding
