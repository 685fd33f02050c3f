"""What each kind of fault does on the wire: a class for each, in a module for each family; `EFFECTS` has them all."""

import sys

from conformance import counterparts
from conformance.faults import FAULTS
from conformance.wire.faults.effect import EFFECTS, Blow, Effect, strike, strike_behind, strike_connection, told

__all__ = ["EFFECTS", "Blow", "strike", "strike_behind", "strike_connection", "told"]

counterparts.load(sys.modules[__name__])
counterparts.match("fault", FAULTS, "conformance/faults.py", EFFECTS, "conformance/wire/faults/")

for _name, _kind in FAULTS.items():
    _may = {
        "on_unit": any(place != "connect" for place in _kind.at),
        "behind": _kind.once_passed,
        "on_connection": "connect" in _kind.at,
    }
    _does = type(EFFECTS[_name])
    counterparts.match(
        f"point of the fault {_name}",
        [point for point, may in _may.items() if may],
        "conformance/faults.py",
        [point for point in _may if getattr(_does, point) is not getattr(Effect, point)],
        f"{_does.__module__}.{_does.__qualname__}",
    )
