"""Whether a cell applies to an assignment: asked here, and nowhere else, by runs, by trials of defects, and by the start-up probe.

What can be known before a cell is started is known here. That a program's clock cannot be moved shows only when the program
runs (`conformance.run.cell`).
"""

import re
from collections.abc import Iterator

from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import unclaimed_needs, unsupported_reasons
from conformance.candidates.description import REFERENCE
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

_SHADOW_VERB = re.compile(r"\bX(SHADOW|Q(UERY)?DISCARD)", re.IGNORECASE)


def inapplicable_reason(cell: Cell, assignment: Assignment, settings: Settings) -> str:
    """Return why a cell does not apply to an assignment under these settings; '' when it does."""
    servers = tuple(cell.topology.by_name)
    # Asked from here down, candidates last; which reason is told first is another order.
    part, generation = _without_a_part(cell, assignment), _misplaced(cell, assignment)
    spelled = tuple(_spelled_otherwise(cell, assignment))
    waits = (
        (*_silences(cell, assignment), *_kills(cell, assignment), *_attempts(cell, assignment))
        if settings.scale != 1
        else ()
    )
    times = tuple(_times(cell, settings)) or waits
    disks = {
        name: unsupported_reason(assignment.candidate_for(name), disk_troubles_of(cell, name), settings.disk)
        for name in servers
    }
    undescribed = cell.timers == "own" and assignment.own_timers(servers) is None
    reasons = {
        "not in this topology: ": part,
        "not of this generation: ": generation,
        "not claimed: ": unclaimed_needs(cell, assignment),
        "not described: the own-timers of ": (assignment.identity,) if undescribed else (),
        "": times,
        "spelled as in profile-1: ": spelled,
    }
    if told := next((beginning + ", ".join(some) for beginning, some in reasons.items() if some), ""):
        return told
    lacking = tuple(f"{name}: {reason}" for name, reason in disks.items() if reason)
    cannot = (*assignment.unavailable(servers), *lacking, *unsupported_reasons(cell, assignment, settings.scale))
    return "cannot be run: " + ", ".join(cannot) if cannot else ""


def _without_a_part(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `server (candidate)` for what was named and plays nothing: nothing of it would be judged.

    The reference is named to fill places: a cell applies without it, if anything that was named plays in it.
    """
    there = cell.topology.by_name
    playing = [candidate for server, candidate in assignment.servers.items() if server in there]
    return tuple(
        f"{server} ({candidate.identity})"
        for server, candidate in assignment.servers.items()
        if server not in there and candidate not in playing and (candidate != REFERENCE or not playing)
    )


def _misplaced(cell: Cell, assignment: Assignment) -> tuple[str, ...]:
    """Return `candidate is GENERATION, server is GENERATION` for every server that would be started as what it is not."""
    return tuple(
        f"{assignment.candidate_for(server.name).identity} is {' or '.join(assignment.candidate_for(server.name).generations)}, "
        f"{server.name} is {server.generation}"
        for server in cell.topology.servers
        if server.generation not in assignment.candidate_for(server.name).generations
    )


def _spelled_otherwise(cell: Cell, assignment: Assignment) -> Iterator[str]:
    """Yield `server (candidate) has the dialect NAME` for the first that would not understand what the harness says."""
    for step in cell.all_steps:
        for server in _addressed(step.action):
            candidate = assignment.candidate_for(server)
            if candidate.resolved_dialect != PROFILE_1:
                yield f"{server} ({candidate.identity}) has the dialect {candidate.resolved_dialect.name}"
                return


def _addressed(action: object) -> tuple[str, ...]:
    """Return the servers to whom the harness says shadow verbs: line by line, or as a server that keeps its shadows."""
    match action:
        case Talk(to=to, lines=lines):
            said = (f"{line.say or ''} {line.octets or ''}" for line in lines)
            return (to,) if any(map(_SHADOW_VERB.search, said)) else ()
        case Send(via=via, offers_xshadow=True):
            return via
    return ()


def _times(cell: Cell, settings: Settings) -> Iterator[str]:
    """Yield why the times of a cell cannot be shown under these settings; one reason is enough."""
    if cell.timers == "own" and settings.scale != 1:
        yield "the server's own timers cannot be scaled"
    elif cell.unscaled and settings.scale != 1:
        yield f"a scaled clock cannot show it: {cell.unscaled}"


def _silences(cell: Cell, assignment: Assignment) -> Iterator[str]:
    """Yield which server waits for a silent next hop for a time that no clock divides.

    A next hop that falls silent once it has the message is none of these: it has it.
    """
    for step in cell.all_steps:
        match step.action:
            case Fault(does="stall" | "mute", at=at, when=when, sender=sender) if at != "dot" or when == "before":
                for server in cell.topology.servers:
                    candidate = assignment.candidate_for(server.name)
                    if sender in (server.name, "*") and candidate.waits_for_silence is not None:
                        yield (
                            f"a scaled clock cannot show it: {server.name} ({candidate.identity}) waits "
                            f"{values.format_duration(candidate.waits_for_silence)} of real time for a silent next hop"
                        )
                        return


def _kills(cell: Cell, assignment: Assignment) -> Iterator[str]:
    """Yield which server may leave a message alone, after a kill amid its attempts, for a time that no clock divides."""
    steps = [step.action for step in cell.all_steps]
    if not any(isinstance(action, Answer) and action.reply.startswith("4") for action in steps):
        return
    for action in steps:
        if isinstance(action, Kill | PowerCut):
            for server in cell.topology.servers:
                candidate = assignment.candidate_for(server.name)
                if {server.name, "all"} & set(action.node) and candidate.waits_after_a_kill is not None:
                    yield (
                        f"a scaled clock cannot show it: {server.name} ({candidate.identity}) may leave a message alone for "
                        f"{values.format_duration(candidate.waits_after_a_kill)} of real time after a kill"
                    )
                    return


def _attempts(cell: Cell, assignment: Assignment) -> Iterator[str]:
    """Yield which server has to try again, and waits before that for a time that no clock divides."""
    for server in cell.topology.servers:
        candidate = assignment.candidate_for(server.name)
        if candidate.waits_between_attempts is not None and any(
            _is_in_the_way(step.action, server.name) for step in cell.all_steps
        ):
            yield (
                f"a scaled clock cannot show it: {server.name} ({candidate.identity}) waits "
                f"{values.format_duration(candidate.waits_between_attempts)} of real time between two attempts"
            )
            return


def _is_in_the_way(action: Action, server: str) -> bool:
    """Whether a step may have a server's attempt at delivering fail for now."""
    match action:
        case Answer(reply=reply):
            return reply.startswith("4")
        case Fault(sender=sender):
            return sender in (server, "*")
        case Partition(between=groups):
            return any(server in group for group in groups)
    return False
