"""Decides whether a cell applies to an assignment of candidates: for runs, trials of defects and plans, and `candidate check`.

A *cell* is one scenario with one value for each axis. An *assignment* says which candidate (implementation under test) plays
each of its servers. The *scale* is what documented times are divided by. A *reason* says in words why a cell does not apply.
Everything that can be known before a cell starts is decided here. That a program's clock cannot be shifted shows only when it
runs (`conformance.run.cell`).

The `waits_...` of a candidate's description are times in seconds that no setting changes, so a scaled clock does not shorten
them: the server waits for them *unscaled*. They are None where the candidate has no such wait. A cell whose scenario makes a
server wait for such a time does not apply on a scaled clock.
"""

import re
from collections.abc import Iterator

from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import unclaimed_needs, unsupported_reasons
from conformance.candidates.description import REFERENCE, Candidate
from conformance.history.dialects import PROFILE_1
from conformance.nodes.disks.node_disk import disk_troubles_of, unsupported_reason
from conformance.run.settings import Settings
from conformance.scenarios import values
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Answer, Fault, Partition
from conformance.scenarios.steps.nodes import Kill, PowerCut
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.steps.talking import Talk
from conformance.topology import Server

_SHADOW_VERB = re.compile(r"\bX(SHADOW|Q(UERY)?DISCARD)", re.IGNORECASE)


def inapplicable_reason(cell: Cell, assignment: Assignment, settings: Settings) -> str:
    """Return why a cell does not apply to an assignment under these settings; "" when it does.

    The text names the first kind of obstacle that is found, with all its details: `not claimed: postfix: shadow-2013`. Starts
    no node, but may block, as when the Docker engine is asked. `disk_troubles_of` returns what the cell does to the disk of a
    server, such as power cuts.
    """
    servers = tuple(cell.topology.by_name)
    undescribed = cell.timers == "own" and assignment.own_timers(servers) is None
    reasons = {
        "not in this topology: ": _unused_candidates(cell, assignment),
        "not of this generation: ": _wrong_generations(cell, assignment),
        "not claimed: ": unclaimed_needs(cell, assignment),
        "not described: the own-timers of ": (assignment.identity,) if undescribed else (),
        "its defaults cannot be asked for: ": _without_defaults(cell, assignment, settings.scale),
        "": _scale_reasons(cell, assignment) if settings.scale != 1 else (),
        "spelled as in profile-1: ": _other_dialects(cell, assignment),
    }
    if reason := next((prefix + ", ".join(details) for prefix, details in reasons.items() if details), ""):
        return reason
    disks = {
        name: unsupported_reason(assignment.candidate_for(name), disk_troubles_of(cell, name), settings.disk)
        for name in servers
    }
    without_disk = tuple(f"{name}: {reason}" for name, reason in disks.items() if reason)
    # Asked last, since finding out whether a candidate is available takes the longest.
    cannot_run = (
        *assignment.unavailable(servers),
        *without_disk,
        *unsupported_reasons(cell, assignment, settings.scale),
    )
    return "cannot be run: " + ", ".join(cannot_run) if cannot_run else ""


def _unused_candidates(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `server (candidate)` for each server of the assignment that the topology lacks, unless its candidate plays another.

    The reference (the harness's own server) may also be assigned to servers that the topology lacks if any other server of
    the assignment is in the topology.
    """
    servers = cell.topology.by_name
    playing = [candidate for server, candidate in assignment.servers.items() if server in servers]
    return tuple(
        f"{server} ({candidate.identity})"
        for server, candidate in assignment.servers.items()
        if server not in servers and candidate not in playing and (candidate != REFERENCE or not playing)
    )


def _wrong_generations(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `candidate is GENERATION, server is GENERATION` for each server whose generation its candidate cannot be."""
    return tuple(
        f"{candidate.identity} is {' or '.join(candidate.generations)}, {server.name} is {server.generation}"
        for server, candidate in _servers_with_candidates(cell, assignment)
        if server.generation not in candidate.generations
    )


def _other_dialects(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `server (candidate) has the dialect NAME` for the first server that would not understand the harness's verbs.

    That is one to which a step of the cell sends commands of shadow redundancy. The harness itself spells these as PROFILE_1,
    the built-in dialect, does. Return () when there is none.
    """
    for step in cell.all_steps:
        for server in _sent_shadow_verbs_to(step.action):
            candidate = assignment.candidate_for(server)
            if candidate.resolved_dialect != PROFILE_1:
                return (f"{server} ({candidate.identity}) has the dialect {candidate.resolved_dialect.name}",)
    return ()


def _without_defaults(cell: Cell, assignment: Assignment, scale: float) -> tuple[str, ...]:
    """Return `server (candidate) ...` for the first server that cannot use its own defaults, in a cell that asks for them.

    Return () when every server can, and for a cell without `parameters: default`. In such a cell the harness leaves parameters
    out of the JSON document that a node reads. A candidate whose files are made from templates gets every value instead. A
    default that is a time must be divided by the scale, which only version 2 of the node contract has in the document.
    """
    for server, candidate in _servers_with_candidates(cell, assignment) if cell.parameters == "default" else ():
        if not candidate.takes_defaults_from_document:
            return (f"{server.name} ({candidate.identity}) does not read the harness's file itself",)
        if candidate.contract == 1 and scale != 1:
            return (f"{server.name} ({candidate.identity}) has contract 1, which names no scale",)
    return ()


def _sent_shadow_verbs_to(action: object) -> tuple[str, ...]:
    """Return the servers to which the harness itself sends commands of shadow redundancy in a step with this action; () for none.

    It does so in a conversation (`talk`) with such a line, and as a sender that offers to keep the shadow of what it sends.
    """
    match action:
        case Talk(to=to, lines=lines):
            texts = (f"{line.say or ''} {line.octets or ''}" for line in lines)
            return (to,) if any(map(_SHADOW_VERB.search, texts)) else ()
        case Send(via=via, offers_xshadow=True):
            return via
    return ()


def _scale_reasons(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return why the documented times of a cell cannot be divided by a scale, () when they can; one wait of each kind at most."""
    if cell.timers == "own":
        return ("the server's own timers cannot be scaled",)
    if cell.unscaled:  # the scenario's reason
        return (f"a scaled clock cannot show it: {cell.unscaled}",)
    waits = (
        _wait_for_silence(cell, assignment),
        _wait_after_kill(cell, assignment),
        _wait_between_attempts(cell, assignment),
    )
    return tuple(f"a scaled clock cannot show it: {wait}" for wait in waits if wait)


def _wait_for_silence(cell: Cell, assignment: Assignment) -> str:
    """Return `SERVER (candidate) waits DURATION ...` for the first server that waits unscaled for a next hop that is silent.

    A next hop is silent by a fault `stall` or `mute` on the server's link. One at `dot` does not count unless it acts `before`:
    later the next hop has the whole message, and the server does not wait. Return "" for none; a server whose candidate has no
    such wait is passed over.
    """
    for step in cell.all_steps:
        match step.action:
            case Fault(does="stall" | "mute", at=at, when=when, sender=sender) if at != "dot" or when == "before":
                for server, candidate in _servers_with_candidates(cell, assignment):
                    if sender in (server.name, "*") and candidate.waits_for_silence is not None:
                        return (
                            f"{server.name} ({candidate.identity}) waits "
                            f"{values.format_duration(candidate.waits_for_silence)} of real time for a silent next hop"
                        )
    return ""


def _wait_after_kill(cell: Cell, assignment: Assignment) -> str:
    """Return `SERVER (candidate) may ... DURATION ...` for the first server that is killed and then waits unscaled before it sends.

    That is a wait in which it leaves deferred messages alone. Return "" for none, and in a cell in which no sink answers with
    4yz: there is no deferred mail then, so the wait does not matter.
    """
    actions = [step.action for step in cell.all_steps]
    if not any(isinstance(action, Answer) and action.reply.startswith("4") for action in actions):
        return ""
    for action in actions:
        if isinstance(action, Kill | PowerCut):
            for server, candidate in _servers_with_candidates(cell, assignment):
                if {server.name, "all"} & set(action.node) and candidate.waits_after_a_kill is not None:
                    return (
                        f"{server.name} ({candidate.identity}) may leave a message alone for "
                        f"{values.format_duration(candidate.waits_after_a_kill)} of real time after a kill"
                    )
    return ""


def _wait_between_attempts(cell: Cell, assignment: Assignment) -> str:
    """Return `SERVER (candidate) waits DURATION ...` for the first server that waits unscaled before it tries again.

    Only a server counts whose attempt to deliver a message some step may make fail temporarily. Return "" for none.
    """
    for server, candidate in _servers_with_candidates(cell, assignment):
        if candidate.waits_between_attempts is not None and any(
            _may_defer_delivery(step.action, server.name) for step in cell.all_steps
        ):
            return (
                f"{server.name} ({candidate.identity}) waits "
                f"{values.format_duration(candidate.waits_between_attempts)} of real time between two attempts"
            )
    return ""


def _may_defer_delivery(action: Action, server: str) -> bool:
    """Whether a step may make an attempt of a server to deliver a message fail temporarily.

    A fault may if it acts on connections that the server opens, a partition if the server is in one of its groups, and an answer
    4yz of a sink for every server.
    """
    match action:
        case Answer(reply=reply):
            return reply.startswith("4")
        case Fault(sender=sender):
            return sender in (server, "*")
        case Partition(between=groups):
            return any(server in group for group in groups)
    return False


def _servers_with_candidates(cell: Cell, assignment: Assignment) -> Iterator[tuple[Server, Candidate]]:
    """Yield each server of the topology with the candidate that plays it."""
    for server in cell.topology.servers:
        yield server, assignment.candidate_for(server.name)
