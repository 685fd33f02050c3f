"""What each kind of fault does on the wire: functions for each kind, in a module for each family.

There is one for each point of an exchange at which the declaration lets the kind strike (`conformance.faults`), and no other.
"""

import sys

from conformance import registry
from conformance.faults import FAULTS
from conformance.wire.faults.effect import (
    BEHIND,
    ON_CONNECTION,
    ON_UNIT,
    Blow,
    strike,
    strike_behind,
    strike_connection,
    told,
)

__all__ = ["Blow", "strike", "strike_behind", "strike_connection", "told"]

registry.import_submodules(sys.modules[__name__])
for _point, _kinds, _done in (
    ("on_unit", [name for name, kind in FAULTS.items() if any(place != "connect" for place in kind.at)], ON_UNIT),
    ("behind", [name for name, kind in FAULTS.items() if kind.once_passed], BEHIND),
    ("on_connection", [name for name, kind in FAULTS.items() if "connect" in kind.at], ON_CONNECTION),
):
    registry.check_counterparts(
        "fault", _kinds, "conformance/faults.py", _done, f"conformance/wire/faults/ (@{_point})"
    )
