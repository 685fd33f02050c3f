"""Random plans: a scene is drawn and run without faults, then faults are drawn for the moments of that run.

The plan is then run with its faults, and those that do not fire are replaced by others, drawn for that run. The plan with number n
depends on the seed, n, the bias, the candidates and the settings alone, so that it is the same in any process. At the end of each
plan faults are healed, servers are started, and the drain waits until all mail is accounted for. A *scene* is a topology and what
happens in it without faults. An *action* is the content of a step of the scenario language.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import overload

from conformance.candidates.assignment import Assignment
from conformance.explore import grammar
from conformance.explore.aiming import Aim, Disturbance, insert
from conformance.explore.peace import drain_bound, most_rounds
from conformance.explore.scenes import Scene, draw_scene, draw_weighted
from conformance.explore.sweep import Plan, as_step, numbered
from conformance.explore.trial import PlanRun, RecordedPlan, judge_plan, record_plan
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Action, Step
from conformance.scenarios.steps.timing import Advance

REQUIREMENT = "RL-ACK-01"
"""The requirement of every random plan, which a file must name: what is acknowledged is delivered."""


class RandomPlans(Sequence[Plan]):
    """The random plans of a seed by their numbers, from 0 to `number` - 1.

    To get one (`plans[3]`) means to run its scene without faults and then with them, which blocks.
    """

    def __init__(
        self,
        seed: int,
        number: int,
        assignment: Assignment,
        settings: Settings,
        bias: grammar.Bias = grammar.Bias(),  # noqa: B008  # immutable
    ) -> None:
        """Prepare `number` plans of a seed; none is drawn yet. `assignment` and `settings` are those of their runs."""
        self._seed, self._number, self._bias = seed, number, bias
        self._assignment, self._settings = assignment, settings

    def __len__(self) -> int:
        """Return how many plans there are."""
        return self._number

    @overload
    def __getitem__(self, index: int) -> Plan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Plan]: ...
    def __getitem__(self, index: int | slice) -> Plan | Sequence[Plan]:
        """Draw the plan with this number, or those of a slice. Each takes two to four runs, which block; nothing is kept.

        Raises IndexError for a number that is negative or too large; a slice may count from the end.
        """
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._number))]
        return self.record(index).plan

    def name_of(self, number: int) -> str:
        """Return the name of the plan with this number, which is not drawn for that."""
        return f"random plan {number} of seed {self._seed}"

    def run(self, number: int) -> PlanRun:
        """Draw and run the plan with this number, and judge it. Blocks for two to four runs. Raises IndexError."""
        return judge_plan(self.record(number), self._assignment, self._settings)

    def record(self, number: int) -> RecordedPlan:
        """Draw and run the plan with this number, and return it with its history, not judged.

        Blocks for two to four runs. Raises IndexError.
        """
        if not 0 <= number < self._number:
            raise IndexError(number)
        rng = random.Random(f"{self._seed} {number}")  # noqa: S311  # to be repeated, not to be secret
        return _Drawing(self.name_of(number), rng, self._bias, self._assignment, self._settings).record()


class _Drawing:
    """Draws one plan, and runs it; its scene is drawn at once, its faults by `record`. All draws come from `_rng`."""

    def __init__(
        self, name: str, rng: random.Random, bias: grammar.Bias, assignment: Assignment, settings: Settings
    ) -> None:
        """Draw the scene of the plan with this name, without running it."""
        self._name, self._rng, self._bias = name, rng, bias
        self._assignment, self._settings = assignment, settings
        self._scene = draw_affordable_scene(self._rng, bias)

    def record(self) -> RecordedPlan:
        """Draw the plan, run it, and return its history. Blocks for two to four runs.

        The scene is run without faults, then with faults that are drawn for moments of that run. Faults that do not fire are
        replaced once, for moments of the second run. If a fault still does not fire and the run cannot be completed, the plan is
        run a last time without the actions of that fault; its name stays in `Plan.faults`, so the plan counts as not fired.
        """
        names = [f"f{number}" for number in range(1, draw_weighted(self._rng, grammar.FAULT_NUMBERS) + 1)]
        scene = _with_pauses(self._scene)
        base = self._record(scene, [])
        faults = Aim(self._rng, self._scene, base.events, self._bias).draw(names)
        actions = _with_faults(scene, faults)
        run = self._record(actions, faults)
        unfired = [fault for fault in faults if not fault.fires_in(run.events)]
        if not unfired:
            return run
        fired = [fault for fault in faults if fault not in unfired]
        taken = {fault.name for fault in fired}
        replacements = Aim(self._rng, self._scene, run.events, self._bias).draw(
            [name for name in names if name not in taken][: len(unfired)]
        )
        faults, actions = [*fired, *replacements], _without(_with_faults(actions, replacements), unfired)
        run = self._record(actions, faults)
        missed = [fault for fault in faults if not fault.fires_in(run.events)]
        if not (run.reason and missed):
            return run
        # A `start` of a server that did not go down cannot be done.
        return self._record(_without(actions, missed), faults)

    def _record(self, actions: Sequence[Action], faults: Sequence[Disturbance]) -> RecordedPlan:
        """Run the actions as a plan, and return its history. Blocks. The names of `faults` become those that must fire."""
        names = tuple(fault.name for fault in faults if fault.name)
        return record_plan(
            Plan(name=self._name, cell=_cell(self._scene, actions), faults=names), self._assignment, self._settings
        )


def draw_affordable_scene(rng: random.Random, bias: grammar.Bias) -> Scene:
    """Return a scene in which no server may do the same more often than `grammar.MOST_ROUNDS`; others are drawn anew."""
    while True:
        scene = draw_scene(rng, bias)
        if most_rounds(scene.topology, _steps(_with_pauses(scene)), scene.end) <= grammar.MOST_ROUNDS:
            return scene


def _without(actions: Sequence[Action], faults: Sequence[Disturbance]) -> list[Action]:
    """Return the actions of a plan without those that belong to these faults, compared by identity; neighbouring waits are joined."""
    gone = {id(one.action) for fault in faults for one in fault.insertions}
    return _merged([action for action in actions if id(action) not in gone])


def _with_faults(actions: Sequence[Action], faults: Sequence[Disturbance]) -> list[Action]:
    """Return the actions of a plan with those of faults in between, and at the end an `advance` up to the latest `until` of a fault.

    Neighbouring waits are joined.
    """
    found = [*insert(actions, [one for fault in faults for one in fault.insertions])]
    lasts = sum(action.by for action in found if isinstance(action, Advance))
    until = max((fault.until for fault in faults), default=0.0)
    return _merged([*found, Advance(by=until - lasts)] if until > lasts else found)


def _merged(actions: Sequence[Action]) -> list[Action]:
    """Return the actions of a plan with one `advance` (let documented time pass) in place of several in a row."""
    found = list[Action]()
    for action in actions:
        if isinstance(action, Advance) and found and isinstance(found[-1], Advance):
            found[-1] = Advance(by=found[-1].by + action.by)
        else:
            found.append(action)
    return found


def _with_pauses(scene: Scene) -> list[Action]:
    """Return the actions of a scene with an `advance` before each that begins later than the one before, and up to the end."""
    found, now = list[Action](), 0.0
    for t, action in scene.actions:
        if t > now:
            found.append(Advance(by=t - now))
        found.append(action)
        now = t
    return [*found, Advance(by=scene.end - now)]


def _steps(actions: Sequence[Action]) -> tuple[Step, ...]:
    """Return these actions as the steps of a cell."""
    return numbered([as_step(action) for action in actions])


def _cell(scene: Scene, actions: Sequence[Action]) -> Cell:
    """Return a cell of a scene's topology with these actions as its steps, and a drain as long as its parameters need."""
    steps = _steps(actions)
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
