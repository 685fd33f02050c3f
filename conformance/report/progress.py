"""The last line of a terminal while a run goes on: how cells ended, which are running, how many wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.report.safe import visible
from conformance.report.words import span
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OVER_CELLS, WORDS


@dataclass(frozen=True, slots=True)
class State:
    """Where a run is. `running` has the name of each cell and since how many seconds (real time) it runs."""

    planned: int
    ended: Mapping[Outcome, int]
    running: Sequence[tuple[str, float]]

    @property
    def waiting(self) -> int:
        """Cells that have not begun."""
        return max(self.planned - sum(self.ended.values()) - len(self.running), 0)


def status_line(state: State, width: int) -> str:
    """Return the line, printable and at most `width` columns wide."""
    ended = " ".join(
        f"{WORDS[outcome].sign} {state.ended[outcome]}" for outcome in OVER_CELLS if state.ended.get(outcome)
    )
    names = ", ".join(f"{visible(name)} {span(int(seconds))}" for name, seconds in state.running)
    running = f"{len(state.running)} running" + (f": {names}" if names else "")
    line = "  ".join(part for part in (ended, f"{state.waiting} waiting", running) if part)
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
