"""Write docs/failure-analysis.md: what shadow redundancy protects against and what it does not.

`__main__.py` and the tests call this. A *way* is a minimal set of causes of a loss or a duplicate (`causes.py`), a *failure* the
description in words of one or more ways (`failures.py`), a *scope* a bounded world (`scope.py`). An *outcome* is `lost` or
`duplicated`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from conformance.model.exploration.causes import Way, find_ways
from conformance.model.exploration.failures import FAILURES, WINDOW, Failure, essential_causes
from conformance.model.exploration.scope import LARGE_SCOPES, SCOPES, TWO_MESSAGES, Scope
from conformance.model.exploration.search import Model, Size

GENERATIONS = {"ex2013": "Exchange 2013 and later", "ex2010": "Exchange 2010"}
OUTCOMES = {"lost": "Lost", "duplicated": "Duplicated"}


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found in one scope."""

    scope: Scope
    size: Size
    ways: tuple[Way, ...]


class Undescribed(Exception):
    """The search and failures.py do not agree: a way has no description, or a description has no way."""


def analyse(scope: Scope) -> Analysis:
    """Explore one scope, which takes seconds to a minute, and return the number of its states and moves, and its ways.

    TWO_MESSAGES has no ways: they are not searched, since each message is like one alone.
    """
    model = Model(scope)
    ways = () if scope is TWO_MESSAGES else find_ways(model)
    return Analysis(scope=scope, size=model.size(), ways=ways)


def analyse_all() -> Iterator[Analysis]:
    """Yield the analysis of every scope, each explored only when it is asked for."""
    return map(analyse, (*SCOPES, *LARGE_SCOPES))


def failure_of(scope: Scope, way: Way) -> Failure:
    """Return the description of a way found in a scope. Raises Undescribed where failures.py has none."""
    for failure in FAILURES:
        same_kind = (failure.outcome, failure.generation) == (way.outcome, scope.generation)
        if same_kind and essential_causes(way.causes) in failure.ways:
            return failure
    raise Undescribed(
        f"{scope.generation}: {way.outcome} by {sorted(essential_causes(way.causes))}: {'; '.join(way.steps)}"
    )


def render_page(analyses: Sequence[Analysis]) -> str:
    """Return the page as Markdown. Raises Undescribed when a description is missing, or has a way that was not found."""
    found: dict[Failure, list[tuple[Scope, Way]]] = {failure: [] for failure in FAILURES}
    for analysis in analyses:
        for way in analysis.ways:
            found[failure_of(analysis.scope, way)].append((analysis.scope, way))
    for failure, shown in found.items():
        missing = set(failure.ways) - {essential_causes(way.causes) for _, way in shown}
        if missing:
            raise Undescribed(f"{failure.title}: not found: {[sorted(causes) for causes in missing]}")
    parts = [_HEAD, _format_protected(analyses)]
    for generation, title in GENERATIONS.items():
        parts.append(f"## {title}")
        for outcome, heading in OUTCOMES.items():
            parts.append(f"### {heading}")
            failures = [f for f in FAILURES if (f.generation, f.outcome) == (generation, outcome)]
            parts += [_format_failure(failure, found[failure]) for failure in failures]
    return "\n\n".join([*parts, _TAIL, scope_table(analyses)]) + "\n"


def scope_table(analyses: Iterable[Analysis]) -> str:
    """Return the table of scopes with the size of each and the number of ways."""
    head = "| scope | servers | to | mandatory | crashes | lost disks | lost replies | other faults | states | lost | duplicated |"
    return "\n".join([head, "|---" * 11 + "|", *map(scope_line, analyses)])


def scope_line(analysis: Analysis) -> str:
    """Return the line of one scope in the table, with its faults and the numbers of states and ways.

    For TWO_MESSAGES, whose ways are not searched, `as one` stands in place of the numbers of ways.
    """
    s = analysis.scope
    others = ((s.refusals, "refused copy"), (s.cuts, "interruption"), (s.failovers, "failover"))
    counts = [str(sum(way.outcome == outcome for way in analysis.ways)) for outcome in OUTCOMES]
    if s is TWO_MESSAGES:
        counts = ["as one", "as one"]  # its ways are not searched: each message is like one alone
    cells = (
        s.name,
        s.title,
        ", ".join(s.messages),
        "yes" if s.mandatory else "no",
        s.crashes,
        s.databases,
        s.replies,
        ", ".join(f"{number} {fault}" for number, fault in others if number) or "none",
        f"{analysis.size.states:,}",
        *counts,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _format_failure(failure: Failure, shown: Sequence[tuple[Scope, Way]]) -> str:
    """Return the text about one failure as Markdown; `shown` are the ways that were found for it, each with its scope.

    There is at least one; the sequence of steps is the shortest of theirs. The text about a duplicate says too who can read it twice.
    That about a loss in 2013 says so where no scope with RejectMessageOnShadowFailure shows it, except for failovers, which are not
    explored with that parameter.
    """
    lines = [f"**{failure.title}.** {failure.explanation}", "Needed, one of:" if len(failure.ways) > 1 else "Needed:"]
    if failure.outcome == "duplicated":
        to = {scope.messages[0] for scope, way in shown if WINDOW not in way.causes}
        reader = (
            "A recipient outside reads it twice. A mailbox reads it twice only after the window of duplicate detection."
            if "outside" in to
            else "The mailbox reads it twice, within the window of duplicate detection too."
        )
        lines[0] += f" {reader}"
    elif {scope.mandatory for scope, _ in shown} == {False} and failure.generation == "ex2013":
        lines[0] += " Not found with RejectMessageOnShadowFailure." if not shown[0][0].failovers else ""
    ways = [f"- {'; '.join(sorted(way))}" for way in failure.ways]
    steps = min((way.steps for _, way in shown), key=len)
    file, _, cell = failure.scenario.partition("::")
    where = f"Scenario: `{cell}` in [`{file}`](../scenarios/{file})"
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    return "\n\n".join(
        [lines[0], "\n".join([lines[1], "", *ways]), "\n".join(["A shortest sequence:", "", *numbered]), f"{where}."]
    )


def _format_protected(analyses: Sequence[Analysis]) -> str:
    """Return the section about what no sequence leads to: the scopes whose ways lose nothing, each with its faults.

    A scope without ways, such as TWO_MESSAGES, is left out.
    """
    lines = [
        "## What it protects against",
        "No sequence of steps of the scopes below leads to more than this page lists. In particular, none loses an acknowledged "
        "message in these scopes:",
        "\n".join(
            f"- {a.scope.title}, to {' and '.join(a.scope.messages)}"
            f"{', RejectMessageOnShadowFailure' if a.scope.mandatory else ''}: {_format_faults(a.scope)}"
            for a in analyses
            if a.ways and not any(way.outcome == "lost" for way in a.ways)
        ),
        "So with RejectMessageOnShadowFailure one lost disk loses nothing, whatever else happens within these bounds: crashes and "
        "restarts in any order, lost replies, refused copies, interruptions, intervals that pass early or late.",
    ]
    return "\n\n".join(lines)


def _format_faults(scope: Scope) -> str:
    """Return the faults that may happen in a scope, in words; '' for a scope without faults."""
    numbers = (
        (scope.crashes, "crash", "crashes"),
        (scope.databases, "lost disk", "lost disks"),
        (scope.replies, "lost reply", "lost replies"),
        (scope.refusals, "refused shadow copy", "refused shadow copies"),
        (scope.cuts, "interruption", "interruptions"),
        (scope.failovers, "failover", "failovers"),
    )
    return ", ".join(f"{number} {one if number == 1 else many}" for number, one, many in numbers if number)


_HEAD = """\
# Failure analysis

What shadow redundancy protects against, and what it does not. This page lists every way in which an acknowledged message can be lost
or duplicated although every server obeys the documents. They come from a model of such servers, of which every reachable state was
visited, and not from scenarios or from the behaviour of a server.

## How to read this page

- The model is a set of small steps that the [requirements](requirements.md) permit or demand: a server asks for a shadow copy, answers,
  delivers, asks for the discard status, takes over; a server crashes, starts again, loses its disk; a reply is lost. Long intervals are
  steps that may come at any time while their condition holds. A server that has crashed may start again at any time, or never.
- A *way* is a set of causes of which none can be left out (a *minimal cut set* of fault tree analysis). A cause is a fault, or a long
  interval that passes. The loss of a disk includes the outage of its server.
- Below each way is a shortest sequence with these causes. Other orders of the same causes exist.
- Lost means that the sender has read 250, nothing has arrived, and no server has a copy that it will still deliver. A non-delivery
  report is not a loss; the model leaves the expiry of queued messages out.
- The scenario that is named shows the failure on the reference. It passes there, because the documents permit the failure: it says
  `copies: {max: 2}` or waives an invariant with the reason.
- The largest scope has two messages. They share servers and faults and nothing else, so each of them goes through the states of a
  scope with one message: two messages add no way.

`python -m conformance.model.exploration --write docs/failure-analysis.md` writes this page in about two minutes, and `--check` compares it.
"""

_TAIL = """\
## What was explored

A line of this table is one scope: a bounded number of servers, messages and faults. `mandatory` is RejectMessageOnShadowFailure. The
numbers of states of `three-servers` and `two-messages` equal those of [Spin](https://spinroot.com), which counts them with a second,
independently written model (`tests/model/exploration/servers.pml`).

A sender sends a message at most twice without an answer. A message that has arrived twice is not followed any further. Each transmission
has at most one copy on each server. Mail is for one recipient, in one boundary. Not in the model: the expiry of queued messages with a
report, Redirect-Message, bifurcation, Safety Net of a server that loses its disk, mailbox servers and 2010 hubs in one site."""
