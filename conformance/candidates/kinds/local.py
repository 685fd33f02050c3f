"""The kinds that the harness starts on this machine: `python` (in this process), `exec` (programs), `docker` (a container).

A *word* such as `docker:IMAGE` names a candidate without a description on the command line (`--candidate`).
"""

from typing import Annotated, Any

from pydantic import Field

from conformance.candidates.availability import Availability, engine_missing
from conformance.candidates.fields import ClosedModel, CommonFields, KindFields, ListenerName
from conformance.candidates.kind import ANOTHER, DISK, Kind
from conformance.clocks import IN_PROCESS, MOVED_CLOCK


class PythonFields(KindFields):
    """What only the kind `python` has in its description."""

    factory: str | None = Field(None, description="python: `package.module:factory`")


class Python(Kind):
    """A node that a factory creates on this process's event loop."""

    name = "python"
    needs = "factory"
    fields = PythonFields
    features = frozenset({IN_PROCESS})
    builtin_commands = Kind.builtin_commands | {ANOTHER}


class ExecFields(KindFields):
    """What only the kind `exec` has in its description."""

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
    """A program and all processes that it starts, under a guard process of the harness."""

    name = "exec"
    needs = "argv"
    fields = ExecFields
    features = frozenset({MOVED_CLOCK, DISK})
    builtin_commands = Kind.builtin_commands | {ANOTHER}
    parallel_claims = 6


class Container(ClosedModel):
    """How a container of the kind `docker` is run."""

    image: str = Field(description="an image that the engine has already; nothing is pulled")
    memory: str = Field("512m", description="memory limit, as Docker writes it")
    pids: int = Field(256, ge=8, description="most processes and threads")
    ports: dict[ListenerName, Annotated[int, Field(ge=1, le=65535)]] = Field(
        {"frontend": 2525, "transport": 2526, "delivery": 2527},
        description="the ports of its listeners inside the container, for a server whose ports are fixed",
    )
    writable: tuple[str, ...] = Field(
        (), description="directories of the image that need a tmpfs: the root is read-only"
    )


class DockerFields(KindFields):
    """What only the kind `docker` has in its description."""

    container: Container | None = Field(None, description="docker: the image, and how its container is run")


class Docker(Kind):
    """A container of an image, on a network of its own."""

    name = "docker"
    needs = "container"
    fields = DockerFields
    word = "docker:IMAGE"
    sees_host_files = False
    parallel_claims = 6

    def parse_word(self, argument: str, name: str) -> dict[str, Any]:
        """Return the fields of a container of the image `argument`, whose program takes `--config FILE`.

        Raises ValueError when `name`, which is made from the argument, is empty.
        """
        if not name:
            raise ValueError(argument)
        return {"name": name, "argv": ("--config", "{config}"), "container": Container(image=argument)}

    def check_availability(self, candidate: CommonFields) -> Availability:
        """Return what is missing of a Docker engine; whether the engine has the image is not asked."""
        return Availability(missing=engine_missing())
