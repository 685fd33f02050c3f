"""Judges the way of mail between sites: least cost, direct connections, delayed fan-out (SR-BIF-01 to SR-BIF-04).

Theory of operation
-------------------
Mail for a mailbox on a server of another site, outside the boundary and not in a DAG, follows the *route*: the path over site
links of least cost, then of fewest hops, then of lower names. It goes directly to the last site of the route (SR-BIF-02).
Recipients whose routes begin alike share a transmission to the last site that their routes have in common, where a server splits
it (SR-BIF-03); a hub site on the way ends the shared part. That site is the *target*. Where it cannot be reached the message goes
to the site before it on the route, and so on back.

A server may know that a site cannot be reached from an attempt for another message, so any failed one that was not followed by a
success explains a nearer site, for an hour: no document says for how long a server may go by it. An explicit route for a
recipient's domain goes before all this, and mail may be moved inside a site. After a database became active elsewhere the servers
decide by what they know of it, so later mail is not judged. Nor is what comes after a change of site links or hub sites.

A *path* is the list of the sites of a route, the sender's own first. `sent` is the transmission that is judged, `client` the
server that sends it, `n` an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n`
and `dot_t` those of its final dot (None before it), `replies` the final replies, `acceptance` the first positive final reply or
None, `message` the scenario's name of the message or None, and `recipients` those that were not refused. Its `kind` is `shadow`
(a copy that the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A
session is *disturbed* where any fault acted in it or may have delayed it. Of a server's listeners `frontend` is for mail from
outside, `transport` for other servers, `delivery` that of its mailbox store. `facts.slack` is by how many seconds a time may miss
a bound.

Records: a `StepEvent` is the begin or end of a step of the scenario; a `CommandRun` is an administrator's command to a server.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from conformance.history.events import CommandRun, Configured, StepEvent
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.topology import Topology
from conformance.trace.finding import Finding
from conformance.trace.sessions import Session, Transaction

_REMEMBERED_S = 3600.0
"""Documented seconds for which a failed attempt explains that a server is not tried: no document has a figure."""

Path = tuple[str, ...]


def least_cost_path(topology: Topology, begin: str, end: str) -> Path:
    """Return the path from one site to another of least cost, then of fewest hops, then of lower names; () for none."""
    heap: list[tuple[int, int, Path]] = [(0, 0, (begin,))]
    seen: set[str] = set()
    while heap:
        cost, hops, path = heappop(heap)
        if path[-1] == end:
            return path
        if path[-1] in seen:
            continue
        seen.add(path[-1])
        for link in topology.site_links:
            if path[-1] in link.between:
                other = link.between[link.between[0] == path[-1]]
                heappush(heap, (cost + link.cost, hops + 1, (*path, other)))
    return ()


@dataclass(frozen=True, slots=True)
class SiteMap:
    """The sites of a topology: `servers` by site, `hosts` the server of each mailbox, `paths` a cache by (own site, last site).

    Edge servers are in no site here.
    """

    facts: Facts
    servers: dict[str, list[str]]
    hosts: dict[str, str]
    paths: dict[tuple[str, str], Path]

    @classmethod
    def of(cls, facts: Facts) -> "SiteMap":
        """Return the map of a history's topology."""
        servers: dict[str, list[str]] = {}
        for server in facts.topology.servers:
            if server.role != "edge":
                servers.setdefault(server.site, []).append(server.name)
        hosts = {mailbox.address.casefold(): mailbox.server for mailbox in facts.topology.mailboxes}
        return cls(facts, servers, hosts, {})

    def host(self, recipient: str) -> str | None:
        """Return the server that hosts a recipient's mailbox, None for an address outside."""
        return self.hosts.get(recipient.casefold())

    def has_own_route(self, server: str, recipient: str) -> bool:
        """Return whether a route for exactly the recipient's domain goes before site routing on a server."""
        domain = recipient.rpartition("@")[2].casefold()
        return any(
            route.domain == domain and (not route.servers or server in route.servers)
            for route in self.facts.topology.routes
        )

    def path(self, server: str, recipient: str) -> Path:
        """Return the path of a recipient's route from a server; () where site routing does not apply.

        It does not for an address outside, a mailbox in the server's own boundary or site or in a DAG, an edge server, a domain
        with a route, and sites that no links join.
        """
        topology, host = self.facts.topology, self.host(recipient)
        if host is None or host in topology.boundary(server) or self.has_own_route(server, recipient):
            return ()
        own, end = topology.by_name[server], topology.by_name[host]
        if end.dag is not None or own.site == end.site or own.role == "edge":
            return ()
        key = (own.site, end.site)
        if key not in self.paths:
            self.paths[key] = least_cost_path(topology, *key)
        return self.paths[key]

    def target(self, server: str, path: Path, recipients: Iterable[str]) -> str:
        """Return the site to which a message goes that takes `path` and is for these recipients: the last that they share.

        The first hub site inside the shared part is the target, if it has a server. Sites without a server are passed over; if no site
        of the shared part has one, it is the last of `path`. Recipients whose routes part from this one before its first site with
        a server do not matter: nothing can split the message there.
        """
        shared = list(path)
        split_at = next((n for n, site in enumerate(path) if n and self.servers.get(site)), len(path) - 1)
        for other in recipients:
            theirs = self.path(server, other)
            if theirs[: split_at + 1] == path[: split_at + 1]:
                alike = 0
                while alike < min(len(shared), len(theirs)) and shared[alike] == theirs[alike]:
                    alike += 1
                del shared[alike:]
        hubs = [site for site in shared[1:-1] if site in self.facts.topology.hub_sites and self.servers.get(site)]
        if hubs:
            return hubs[0]
        with_server = [site for site in shared[1:] if self.servers.get(site)]
        return with_server[-1] if with_server else path[-1]


@rule("SR-BIF-01", "SR-BIF-02", "SR-BIF-03", "SR-BIF-04", timed=False)
def transmitted_along_route(facts: Facts) -> Finding:
    """Check that each transmission between servers under test goes to the right site, and that nearer sites are tried in need.

    Nothing is judged without site links, or from where mail is moved on (`end_of_judgement`).
    """
    finding = Finding(
        "transmission along the route of least cost, as far as its recipients share it and it can be reached"
    )
    if not facts.topology.site_links:
        return finding
    sites, end = SiteMap.of(facts), end_of_judgement(facts)
    for name in facts.trace.messages:
        for sent in facts.trace.transactions_of(name):
            if (
                sent.kind != "shadow" and sent.listener == "transport" and sent.n < end
                and facts.is_opened_by_tested_server(sent.client, sent.session) and facts.is_tested_server(sent.server)
            ):  # fmt: skip
                _check_transmission(finding, sites, sent)
    _check_fallback(finding, sites, end)
    return finding


def end_of_judgement(facts: Facts) -> int:
    """Return the number of the first event after which mail is moved, or mailboxes or site links are elsewhere.

    It is `facts.end_n` without one.
    """
    moves = [e.n for e in facts.trace.events_of(Configured) if {"site_links", "hub_sites"} & e.changes.keys()]
    moves += [e.n for e in facts.trace.events_of(CommandRun) if "redirect" in e.command]
    moves += [e.n for e in facts.trace.events_of(StepEvent) if e.verb in ("activate", "redirect")]
    return min(moves, default=facts.end_n)


def _check_transmission(finding: Finding, sites: SiteMap, sent: Transaction) -> None:
    """Add a violation where a transmission with a recipient in another site goes to a wrong site.

    Such a transmission is an occasion, unless it stays in the sender's own site. At most one violation is added.
    """
    facts, client = sites.facts, sent.client
    recipients = [*sent.recipients, *sent.refused]
    paths = {recipient: path for recipient in recipients if (path := sites.path(client, recipient))}
    site = facts.context.site_of(sent.server)
    if not paths or site == facts.context.site_of(client):
        return
    finding.occasions += 1
    message = facts.trace.messages[sent.message or ""]
    where = f"{client} sent it to {sent.server} in {site}"
    if stray := [recipient for recipient in recipients if _is_stray(sites, sent, recipient)]:
        words = f"{where} for {stray[0]} too, who is not behind a site"
        finding.add_message_violation(message, words, sent.n, row="SR-BIF-04")
        return
    off_route = [recipient for recipient, path in paths.items() if site not in path]
    if off_route:
        row = "SR-BIF-03" if len(off_route) < len(paths) else "SR-BIF-01"
        route = " - ".join(paths[off_route[0]])
        words = f"{where} for {off_route[0]}, whose route is {route}"
        finding.add_message_violation(message, words, sent.n, row=row)
        return
    recipient, path = next(iter(paths.items()))
    targets = {sites.target(client, path, together) for together in _given_together(facts, sent, recipient)}
    at = path.index(site)
    if site in targets:
        return
    nearest = min(path.index(target) for target in targets)
    if at > nearest:
        words = f"{where} for {recipient} alone, not to {path[nearest]}, up to where other recipients share its route"
        finding.add_message_violation(message, words, sent.n, row="SR-BIF-03")
    elif not all(_was_unreachable(sites, client, passed, sent) for passed in path[at + 1 : nearest + 1]):
        words = f"{where} for {recipient}, not to {path[nearest]}, which it had not found unreachable"
        finding.add_message_violation(message, words, sent.n, row="SR-BIF-02")


def _is_stray(sites: SiteMap, sent: Transaction, recipient: str) -> bool:
    """Return whether a recipient outside, or in a DAG, shares a transmission that does not go to its own next hop (SR-BIF-04).

    False for a recipient to whom site routing or a route for the mailbox's domain applies.
    """
    topology, host = sites.facts.topology, sites.host(recipient)
    if sites.path(sent.client, recipient):
        return False
    if host is not None and sites.has_own_route(sent.client, recipient):
        return False
    if host is None:
        return sent.server not in topology.next_hops(sent.client, recipient)
    dag = topology.by_name[host].dag
    return dag is not None and topology.by_name[sent.server].dag != dag


def _given_together(facts: Facts, sent: Transaction, recipient: str) -> Iterator[list[str]]:
    """Yield lists of recipients together with whom the client may have decided on the site for one recipient.

    For each transaction that gave it the message for `recipient`: all of its recipients, and those of them that no next hop had accepted
    before `sent`. Without such a transaction, the recipients of `sent`.
    """
    name, before = sent.message or "", sent.dot_n or sent.n
    normalize = facts.context.normalize_address
    done = {
        normalize(other)
        for passed in facts.trace.transactions_of(name)
        if passed.client == sent.client and passed.kind != "shadow" and passed.replies and passed.replies[-1].n < sent.n
        for other in passed.accepted_recipients
    }
    found = False
    for given in facts.trace.transactions_of(name):
        if (
            given.server == sent.client
            and given.n < before
            and normalize(recipient) in map(normalize, given.recipients)
        ):
            found = True
            yield given.recipients
            yield [other for other in given.recipients if normalize(other) not in done]
    if not found:
        yield sent.recipients


def _was_unreachable(sites: SiteMap, client: str, site: str, sent: Transaction) -> bool:
    """Return whether the client's last attempt at each server of a site had failed (`_had_failed`); True for a site without servers."""
    return all(_had_failed(sites.facts, client, server, sent) for server in sites.servers.get(site, ()))


def _had_failed(facts: Facts, client: str, server: str, sent: Transaction) -> bool:
    """Return whether the client's last attempt at a server within `_REMEMBERED_S` before transmission `sent` had failed.

    The attempt may be for any message. A session that began after that of the transmission shows no success: the server had been
    chosen by then. False without an attempt.
    """
    chosen_n = facts.trace.sessions[sent.session].n
    since_n = facts.first_event_at(sent.t - _REMEMBERED_S - facts.slack)
    failed = [e.n for e in facts.failed_connections(client, since_n - 1) if e.server == server and e.n < sent.n]
    good: list[int] = []
    for session in facts.sessions_by_client_and_server.get((client, server), ()):
        if session.n < sent.n and facts.end_of_session(session.name) >= since_n:
            if _is_failed(facts, session, sent.n):
                failed.append(
                    min(facts.end_of_session(session.name), sent.n)
                )  # it may fail after a later session was opened
            elif session.n < chosen_n:
                good.append(session.n)
    return max(failed, default=-1) > max(good, default=-1)


def _is_failed(facts: Facts, session: Session, n: int) -> bool:
    """Return whether a session had failed before event `n`: something was refused, or it was reset.

    A session failed too, whenever it was, if EHLO was never answered or a fault disturbed it.
    """
    refused = any(reply.code >= 400 and reply.n < n for reply in session.replies)
    was_reset = session.closed is not None and session.closed.n < n and session.closed.how == "reset"
    return refused or was_reset or session.keywords is None or facts.is_disturbed(session.name)


def _check_fallback(finding: Finding, sites: SiteMap, end: int) -> None:
    """Add a violation where a server fails twice to reach the last site of a route, and tries no site before it (SR-BIF-02).

    It had the message all the time between two failed connections to the server of the mailbox. Routes without a server in
    between are no occasion. Events from number `end` on are not judged.
    """
    facts = sites.facts
    for (client, name), receipts in facts.given_by_server_and_message.items():
        for given in receipts:
            for recipient in given.recipients if given.acceptance is not None else ():
                path, host = sites.path(client, recipient), sites.host(recipient)
                nearer = [server for site in path[1:-1] for server in sites.servers.get(site, ())]
                if not nearer or host is None:
                    continue
                failed = [e for e in facts.failed_connections(client, given.n) if e.server == host and e.n < end]
                again = next((e for e in failed if e.t > failed[0].t), None)
                if again is None or _was_passed_on(facts, name, client, recipient, again.n):
                    continue
                finding.occasions += 1
                if not _tried_any(facts, client, nearer, failed[0].n, again.n):
                    finding.add_message_violation(
                        facts.trace.messages[name],
                        f"{client} tried {host} twice in vain, and no server before it on the route {' - '.join(path)}",
                        failed[0].n,
                        again.n,
                        row="SR-BIF-02",
                    )


def _was_passed_on(facts: Facts, name: str, client: str, recipient: str, n: int) -> bool:
    """Return whether a next hop accepted a message for a recipient from the client before event `n`."""
    normalize = facts.context.normalize_address
    return any(
        sent.client == client and sent.kind != "shadow" and sent.replies and sent.replies[0].n < n
        and normalize(recipient) in map(normalize, sent.accepted_recipients)
        for sent in facts.trace.transactions_of(name)
    )  # fmt: skip


def _tried_any(facts: Facts, client: str, servers: list[str], after_n: int, before_n: int) -> bool:
    """Return whether a client tried to reach one of `servers` between two events, or had a session with one open then."""
    if any(e.server in servers and e.n < before_n for e in facts.failed_connections(client, after_n)):
        return True
    return any(
        session.n < before_n and facts.end_of_session(session.name) > after_n
        for server in servers
        for session in facts.sessions_by_client_and_server.get((client, server), ())
    )
