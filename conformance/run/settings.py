"""How a run runs: which clock, which seed; the same for every cell of it."""

from dataclasses import dataclass
from typing import Literal

from conformance.clocks import CLOCKS, ClockName
from conformance.nodes.disks.node_disk import DiskKind
from conformance.scenarios.fault_grid import GridSize
from conformance.verdicts.changes import Should


@dataclass(frozen=True, slots=True)
class Settings:
    """`scale` divides documented times under a scaled clock; `tolerance` is in documented seconds; `should` says what a
    broken `should` does."""

    clock: ClockName = "virtual"
    scale: float = 1.0
    seed: int = 1
    grid: GridSize = "smoke"
    keep: Literal["failed"] | None = None
    """Of which cells the data of the nodes stay until it is known how they ended."""
    cell_timeout: float | None = None
    """Real seconds that one cell may take; None is a bound that its steps, its drain and the clock give."""
    should: Should = "warn"
    disk: DiskKind | None = None
    """What a power cut strikes where both can be had; None: a loop device, else a layer for the reference."""

    @property
    def tolerance(self) -> float:
        """How late, in documented seconds, something may come before a timing check says so.

        A machine's hiccup counts as `scale` times as much.
        """
        return CLOCKS[self.clock].tolerance * self.scale
