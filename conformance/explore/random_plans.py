"""Random plans: a scene is drawn and run without faults, then faults are drawn for the moments of that run.

The plan with number n depends on the seed and n alone, so that it is the same in any process. Each plan ends in peace: faults
are healed, servers are started, and the drain waits until all mail is accounted for.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import overload

from conformance.candidates.assignment import Assignment
from conformance.explore.aiming import Aim, insert
from conformance.explore.peace import drain_bound
from conformance.explore.scenes import Scene, draw_scene
from conformance.explore.sweep import Plan, numbered
from conformance.explore.trial import run_plan
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import ACTIONS, Action, Step
from conformance.scenarios.steps.timing import Advance

REQUIREMENT = "RL-ACK-01"
"""The requirement of every random plan, which a file must name: what is acknowledged is delivered."""


class RandomPlans(Sequence[Plan]):
    """The random plans of a seed by their numbers, from 0. To get one means to run its scene without faults, which blocks."""

    def __init__(self, seed: int, number: int, assignment: Assignment, settings: Settings) -> None:
        self._seed, self._number = seed, number
        self._assignment, self._settings = assignment, settings

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Plan]: ...
    def __getitem__(self, index: int | slice) -> Plan | Sequence[Plan]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._number))]
        if not 0 <= index < self._number:
            raise IndexError(index)
        return draw_plan(self._seed, index, self._assignment, self._settings)


def draw_plan(seed: int, number: int, assignment: Assignment, settings: Settings) -> Plan:
    """Return the random plan with this number. Blocks."""
    name = f"random plan {number} of seed {seed}"
    rng = random.Random(f"{seed} {number}")  # noqa: S311  # to be repeated, not to be secret
    scene = draw_scene(rng)
    base = run_plan(Plan(name, _cell(scene, _with_pauses(scene, scene.end))), assignment, settings)
    aimed = Aim(rng, scene, base.events).draw()
    actions = insert(_with_pauses(scene, max(scene.end, aimed.until)), aimed.insertions)
    return Plan(name, _cell(scene, [*actions]), tuple(aimed.names))


def _with_pauses(scene: Scene, end: float) -> list[Action]:
    """Return the actions of a scene with an `advance` before each that begins later than the one before, and up to the end."""
    found, now = list[Action](), 0.0
    for t, action in scene.actions:
        if t > now:
            found.append(Advance(by=t - now))
        found.append(action)
        now = t
    return [*found, Advance(by=end - now)]


def _cell(scene: Scene, actions: Sequence[Action]) -> Cell:
    """Return a cell of a scene's topology with these actions as its steps."""
    steps = numbered([Step(path="0", line=1, verb=ACTIONS.name_of(type(a)), action=a) for a in actions])
    cell = Cell(
        scenario="random-plan",
        title="A random plan",
        path="explore/random-plan",
        line=1,
        axes={},
        requirements=(REQUIREMENT,),
        needs=(),
        topology=scene.topology,
        drain=drain_bound(scene.topology, steps),
        steps=steps,
        sha256="",
    )
    contents = cell.model_dump_json(include={"steps", "topology"}, by_alias=True)
    return cell.model_copy(update={"sha256": hashlib.sha256(contents.encode()).hexdigest()})
