"""Which plans a sweep of scenarios has: those of each scenario whose run without faults is sound, in an order that a seed draws.

The command `conformance explore` asks for them here, and `sweep` and `pairs` make them. A run is *sound* if it came to its end and
violates no rule of the model. On the clocks `scaled` and `real` time passes by itself; on the others it jumps to the next timer.
"""

import random
from collections.abc import Collection, Sequence

from conformance.candidates.assignment import Assignment
from conformance.clocks import CLOCKS, IN_PROCESS
from conformance.explore.campaign import run_bases
from conformance.explore.injections import Injection
from conformance.explore.sweep import Enumeration, ObservedCell, Plan, ScenePlans, sweep, without_faults
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.sending import Send

_MAX_CPU_S = 0.2
"""Processor time of the run without faults: without names, costlier scenarios are left out."""


_TOO_COSTLY = "a scenario whose run takes too long; name it to sweep it"


def enumerate_plans(
    cells: Sequence[Cell],
    assignment: Assignment,
    settings: Settings,
    jobs: int,
    *,
    named: bool,
    too_costly: Collection[str] | None = None,
) -> tuple[Enumeration, tuple[str, ...]]:
    """Return the plans of all cells, and the ids of the cells that were left out because their runs are too costly. Blocks.

    Each cell is run once without faults. A cell is left out, and counted in `pruned`, where that run is not sound or takes more
    than 0.2 s of processor time; where the cell has no step besides faults and expectations; and where no report can reach a sender.
    If `too_costly` is given, the cells with these ids are the costly ones, so that another call has the same plans. Else the runs
    are measured, and where the user `named` the cells none is too costly. Where time passes by itself the cells are run `jobs` at a
    time, else one after the other.
    """
    found = Enumeration()
    swept_cells = []
    costly = [cell.id for cell in cells if too_costly is not None and cell.id in too_costly]
    for cell in map(without_faults, cells):
        if cell.id in costly:
            continue
        if not cell.steps:
            found.pruned["a scenario without steps besides faults and expectations"] += 1
        elif not _can_reach_senders(cell):
            found.pruned["a scenario with a sender whom no report can reach"] += 1
        else:
            swept_cells.append(cell)
    bases = [Plan(cell.id, cell) for cell in swept_cells]
    measured = too_costly is None and not named
    for run, cpu_s in run_bases(bases, assignment, settings, 1 if CLOCKS[settings.clock].jumps else jobs):
        if run.result.outcome != "sound":
            found.pruned[f"a scenario whose run without faults is {run.result.outcome}"] += 1
        elif measured and cpu_s > _MAX_CPU_S:
            costly.append(run.plan.cell.id)
        else:
            swept = sweep(
                ObservedCell.from_run(run.plan.cell, run.events),
                lambda plan, fault: reason_against(plan, fault, assignment, settings),
            )
            found.plans.entries += swept.plans.entries
            found.pruned.update(swept.pruned)
    if costly:
        found.pruned[_TOO_COSTLY] += len(costly)
    return found, tuple(costly)


def _can_reach_senders(cell: Cell) -> bool:
    """Return whether each sender of a cell has a mailbox, or a next hop of some server: else a failure cannot be reported.

    The null sender gets no report, and counts as reachable.
    """
    topology = cell.topology
    mailboxes = {mailbox.address for mailbox in topology.mailboxes}
    senders = {step.action.sender for step in cell.all_steps if isinstance(step.action, Send)}
    return all(
        not sender
        or sender in mailboxes
        or any(True for name in topology.by_name for _ in topology.next_hops(name, sender))
        for sender in senders
    )


def reason_against(plan: Plan, injection: Injection, assignment: Assignment, settings: Settings) -> str:
    """Return why a plan with this fault cannot be run with this assignment, '' if it can."""
    if injection.kind == "frozen" and IN_PROCESS in assignment.candidate_for(injection.node).features:
        return "a node in the process of the harness cannot be frozen: its timers go on"
    if injection.kind == "away" and not CLOCKS[settings.clock].jumps:
        return (
            "a server that stays away for hours takes minutes where time passes by itself; it comes back soon instead"
        )
    return inapplicable_reason(plan.cell, assignment, settings)


def draw_plans(plans: ScenePlans, number: int | None, seed: int) -> ScenePlans:
    """Return `number` of the plans, or all for None, in an order drawn by `seed`, so that a time limit leaves out random ones too.

    If there are fewer, all are returned. A larger `number` with the same seed gives the same plans first, and then more.
    """
    order = random.Random(seed).sample(range(len(plans)), len(plans))  # noqa: S311  # to be repeated, not to be secret
    return plans.subset(order[:number])
