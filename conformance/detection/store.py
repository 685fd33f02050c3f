"""The results of trials in a file, a line for each, so that an interrupted measurement goes on where it was.

A line is a JSON list, since there are many: hash of the package, the scenarios and the fixtures; then the fields of the trial.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance.detection.trial import PlanTrial, Series
from conformance.results.atomic_write import read_whole_lines


@dataclass(slots=True)
class SeriesResult:
    """What is known of a series: the trials by the number of the plan. Plans may have ended in another order than they began."""

    trials: dict[int, PlanTrial] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """How many plans, from the first on, were run without a gap."""
        number = 0
        while number in self.trials:
            number += 1
        return number

    @property
    def catch(self) -> PlanTrial | None:
        """The trial with the lowest number that caught the defect, if every plan before it was run too; else None."""
        number = min((number for number, trial in self.trials.items() if trial.check), default=None)
        return self.trials[number] if number is not None and number < self.tried else None

    @property
    def is_caught(self) -> bool:
        """Whether any trial caught the defect, even if plans before it were not run."""
        return any(trial.check for trial in self.trials.values())


@dataclass(slots=True)
class Store:
    """The file with the results; those of another `key` are not read, since the package has changed."""

    path: Path
    key: str
    results: defaultdict[Series, SeriesResult] = field(default_factory=lambda: defaultdict(SeriesResult))

    @classmethod
    def open(cls, path: Path, key: str) -> "Store":
        """Return a store with the results in a file that have this key; with none if the file does not exist yet.

        A last line that was cut off by an interruption is cut off the file. Raises ValueError for any other line that is not a
        trial; OSError.
        """
        store = cls(path, key)
        for trial in _read(path, key):
            store.results[trial.series].trials[trial.number] = trial
        return store

    def add(self, trials: Iterable[PlanTrial]) -> None:
        """Add trials, and append them to the file, whose directory must exist. Raises OSError."""
        with self.path.open("a", encoding="utf-8") as file:
            for trial in trials:
                self.results[trial.series].trials[trial.number] = trial
                series = trial.series
                file.write(
                    json.dumps(
                        [
                            self.key, series.bias, series.seed, series.defect, trial.number, trial.check, trial.requirement,
                            trial.accused, trial.broken, trial.faults, trial.fired,
                        ],
                    )
                    + "\n"
                )  # fmt: skip


def _read(path: Path, key: str) -> Iterator[PlanTrial]:
    """Yield the trials in a file that have this key, in the file's order; nothing if the file does not exist."""
    for line in read_whole_lines(path):
        own, bias, seed, defect, number, check, requirement, accused, broken, faults, fired = json.loads(line)
        if own == key:
            yield PlanTrial(
                Series(bias, seed, defect),
                number=number,
                check=check,
                requirement=requirement,
                accused=accused,
                broken=broken,
                faults=faults,
                fired=fired,
            )
