"""Which class keeps the time of which clock."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

from conformance import counterparts
from conformance.clocks import CLOCKS, ClockName
from conformance.run import clocks
from conformance.run.clocks.interface import Keeper

_Class = TypeVar("_Class", bound=Keeper)

_KEEPERS: counterparts.Register[type[Keeper]] = counterparts.Register("keeper of a clock")


def keeps(name: ClockName) -> Callable[[type[_Class]], type[_Class]]:
    """Say that a class keeps the time of a clock."""

    def register(keeper: type[_Class]) -> type[_Class]:
        setattr(keeper, "name", name)  # noqa: B010  # to read only, for everybody else
        _KEEPERS.add(name, keeper)
        return keeper

    return register


@cache
def keepers() -> Mapping[ClockName, type[Keeper]]:
    """Return the class of each clock. Raises Unmatched where a clock has none, or a class no clock."""
    counterparts.load(clocks)
    counterparts.match("clock", CLOCKS, "conformance/clocks.py", _KEEPERS, "conformance/run/clocks/")
    return _KEEPERS
