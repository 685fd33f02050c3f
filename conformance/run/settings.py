"""The settings of a run, which are the same for all of its cells.

`conformance.suite.options` makes them of the command line; commands that run single cells (`explore`, `candidate check`, trials
of defects) make their own.
"""

from dataclasses import dataclass
from typing import Literal

from conformance.clocks import CLOCKS, ClockName
from conformance.nodes.disks.node_disk import DiskKind
from conformance.scenarios.fault_grid import GridSize
from conformance.verdicts.changes import Should

DEFAULT_SEED = 1
"""The seed without `--seed`. With it, what happens at the same virtual time happens in the order in which it was begun."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run, as the command line's options give them."""

    clock: ClockName = "virtual"
    scale: float = 1.0
    """What documented times are divided by on a scaled clock."""
    seed: int = DEFAULT_SEED
    """Of all random choices; another one than the default also draws the order of what happens at the same virtual time."""
    grid: GridSize = "smoke"
    keep: Literal["failed"] | None = None
    """The cells whose nodes keep their data; None: no cell's."""
    cell_timeout: float | None = None
    """Real seconds that one cell may take; None: a limit that is computed from its steps (`deadline.cell_timeout`)."""
    should: Should = "warn"
    """What the violation of a requirement of the level `should` does."""
    disk: DiskKind | None = None
    """What a power cut uses: a loop device with a file system, or a layer under the node that logs its writes.

    None: a loop device; but for the reference a layer on a machine without loop devices.
    """

    @property
    def tolerance(self) -> float:
        """By how many documented seconds something may be late before a timing check fails.

        A delay of the machine is multiplied by `scale`, as it is measured in documented time.
        """
        return CLOCKS[self.clock].tolerance * self.scale
