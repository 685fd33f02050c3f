"""What each kind of fault of `conformance.faults` does to a session: handlers, in a module for each family of kinds.

A kind has a handler for each point at which its declaration lets it act, and no other; the check below finds what is missing.
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
for _decorator, _kinds, _handlers in (
    ("on_unit", [name for name, kind in FAULTS.items() if any(place != "connect" for place in kind.at)], ON_UNIT),
    ("after_unit", [name for name, kind in FAULTS.items() if kind.after_unit], AFTER_UNIT),
    ("on_connection", [name for name, kind in FAULTS.items() if "connect" in kind.at], ON_CONNECTION),
):
    registry.check_counterparts(
        "fault", _kinds, "conformance/faults.py", _handlers, f"conformance/wire/faults/ (@{_decorator})"
    )
