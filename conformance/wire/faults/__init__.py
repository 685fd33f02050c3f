"""What each kind of fault does on the wire: functions for each kind, in a module for each family.

There is one for each point of an exchange at which the declaration lets the kind strike (`conformance.faults`), and no other.
"""

import sys

from conformance import registry
from conformance.faults import FAULTS
from conformance.wire.faults.handlers import (
    AFTER_UNIT,
    ON_CONNECTION,
    ON_UNIT,
    FaultContext,
    apply,
    apply_after,
    apply_to_connection,
    describe_unit,
)

__all__ = ["FaultContext", "apply", "apply_after", "apply_to_connection", "describe_unit"]

registry.import_submodules(sys.modules[__name__])
for _point, _kinds, _done in (
    ("on_unit", [name for name, kind in FAULTS.items() if any(place != "connect" for place in kind.at)], ON_UNIT),
    ("after_unit", [name for name, kind in FAULTS.items() if kind.after_unit], AFTER_UNIT),
    ("on_connection", [name for name, kind in FAULTS.items() if "connect" in kind.at], ON_CONNECTION),
):
    registry.check_counterparts(
        "fault", _kinds, "conformance/faults.py", _done, f"conformance/wire/faults/ (@{_point})"
    )
