"""Judges the processes of a server that work on one queue: two at a time, and one after a killed one (group SHQ).

`n` is an event's number, `t` its time in documented seconds. Each rule judges one recorded history, `facts`, and returns a
`Finding` of occasions (chances to fail) and violations, as `conformance.model` describes (`timed=False`: it compares no times). A
`Transaction` is one mail transaction: `n` and `t` are those of its MAIL. `facts.slack` is by how many seconds a time may miss a
bound.

Records: `Relaying` has, by server, message and recipient, each `Handing` (the server was handed the message, and `acknowledged`
it or not) and each `Try` (it tried to pass it on; `outcome` is the first digit of the reply that decided), and by server each
`HopConnection` (a connection without mail of a known message); a `NodeEvent` says what happened to a server; a `StepEvent` is the
begin or end of a step.
"""

from conformance.history.events import NodeEvent, StepEvent
from conformance.model.facts import Facts
from conformance.model.relaying import Key, Relaying
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds

_PATIENCE_S = 3600.0
"""Documented seconds within which a message is tried again after a kill, or two of the server's intervals; no clause gives a bound."""


@rule("RL-SHQ-01", timed=False)
def two_processes_deliver_once(facts: Facts) -> Finding:
    """Check that next hops accept no message for a recipient more often than it was handed, with two processes on one queue.

    The rule judges recipients with an acceptance after the second process was started, and counts acceptances from the last kill
    before that up to the next one: after a kill a message may come twice, since the server may not have kept what it had done (RFC
    1047). After an acceptance that the client need not have read, it may pass the message on once more.
    """
    finding = Finding("two processes on one queue pass each message on once")
    started = [e for e in facts.trace.events_of(StepEvent) if e.verb == "start-another" and e.phase == "began"]
    if not started:
        return finding
    since = started[0].n
    relaying = facts.compute_once(Relaying)
    for (server, name, recipient), tries in relaying.tries.items():
        killed = [e.n for e in facts.node_events.get(server, ()) if e.action in ("killed", "exited", "failed")]
        until = min((n for n in killed if n > since), default=facts.end_n)
        begin = max((n for n in killed if n <= since), default=-1)
        accepted = [
            t for t in tries if t.outcome == 2 and not t.is_unclear and t.transaction.n > begin and t.end_n < until
        ]
        permitted = max(len(relaying.handings.get((server, name, recipient), ())), 1)
        if not accepted or accepted[-1].end_n < since:
            continue
        finding.occasions += 1
        again = next((t for i, t in enumerate(accepted) if sum(a.is_known for a in accepted[:i]) >= permitted), None)
        if again is not None:
            finding.add_message_violation(
                facts.trace.messages[name],
                f"{server} passed it on to {again.transaction.server} for {recipient} {len(accepted)} times, with two "
                "processes on its queue",
                again.transaction.n,
                accepted[0].transaction.n,
            )
    return finding


@rule("RL-SHQ-02")
def what_the_dead_have_locked_is_free(facts: Facts) -> Finding:
    """Check that what a server was passing on when it was killed is tried again by the process that goes on, or is started.

    A contact with a next hop counts too, and a delivery. Power cuts are no kills here. Nothing is judged with `timers: own`,
    where the server's intervals are not known, and nothing that was lost with its queue.
    """
    finding = Finding("what was being passed on at a kill is tried again")
    relaying = facts.compute_once(Relaying)
    kills = [
        e for e in facts.trace.events_of(NodeEvent) if e.action == "killed" and not e.detail.startswith("power cut")
    ]
    if not kills or facts.context.cell.timers == "own":
        return finding
    for key, tries in relaying.tries.items():
        server, name, recipient = key
        if not any(h.acknowledged is not None for h in relaying.handings.get(key, ())):
            continue
        for one in tries:
            kill = next((k for k in kills if k.node == server and one.transaction.n < k.n <= one.end_n), None)
            if kill is None or one.is_unclear:
                continue
            if any(t.transaction.n > one.transaction.n for t in tries) or _has_reached_it(facts, key, kill.n):
                finding.occasions += 1
            elif (waited := _time_since_return(facts, key, kill)) is not None:
                finding.occasions += 1
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{server} did not try it for {recipient} within {format_seconds(waited)} after its return from a kill",
                    kill.n,
                    one.transaction.n,
                )
    return finding


def _has_reached_it(facts: Facts, key: Key, after_n: int) -> bool:
    """Return whether a server was in contact with a next hop for a key's recipient after an event, or the message was delivered.

    A delivery counts whenever it was; `key` is server, message and recipient.
    """
    server, name, recipient = key
    hops = facts.context.next_hop_servers(server, recipient)
    contacts = facts.compute_once(Relaying).hop_connections.get(server, ())
    return any(c.server in hops and c.n > after_n for c in contacts) or bool(
        facts.context.deliveries_of(name, recipient)
    )


def _time_since_return(facts: Facts, key: Key, kill: NodeEvent) -> float | None:
    """Return for how long a server has worked since its return from a kill, in documented seconds, if it must have tried again.

    None where that was not long enough, where the message may have expired meanwhile, and where the server did not come back,
    stopped later or lost its queue.
    """
    server = key[0]
    ready = next((e for e in facts.node_events.get(server, ()) if e.n > kill.n and e.action == "ready"), None)
    if ready is None or facts.was_interrupted_between(server, kill.n):
        return None
    interval = facts.possible_parameter_range(server, "MessageRetryInterval", 0, facts.end_n).greatest
    lifetime = facts.possible_parameter_range(server, "MessageExpirationTimeout", 0, facts.end_n).least
    patience = max(_PATIENCE_S, 2 * interval)
    handed = min(h.t for h in facts.compute_once(Relaying).handings[key])
    waited = facts.end_t - ready.t
    return waited if waited >= patience + facts.slack and handed + lifetime > ready.t + patience else None
