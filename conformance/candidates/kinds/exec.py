"""The kind `exec`: a program on this machine."""

from pydantic import Field

from conformance.candidates.fields import KindFields
from conformance.candidates.kind import DISK, Kind
from conformance.clocks import MOVED_CLOCK


class ExecFields(KindFields):
    """What only this kind has in its description."""

    process_limit: int = Field(
        4096,
        alias="process-limit",
        ge=8,
        description="exec: processes and threads beyond which it is killed (docker: container.pids)",
    )
    memory_limit: int = Field(
        4 * 2**30,
        alias="memory-limit",
        ge=2**24,
        description="exec: octets of memory of all its processes beyond which it is killed (docker: container.memory)",
    )


class Exec(Kind):
    """A tree of processes under the harness's guard."""

    name = "exec"
    needs = "argv"
    fields = ExecFields
    features = frozenset({MOVED_CLOCK, DISK})
    parallel_claims = 6
