"""What the harness can ask of a node under test, whatever its kind (docs/node-contract.md).

A node is driven through this interface only. Its configuration is the JSON document of the contract, rendered by
`conformance.nodes.configuration`; the reference node gets nothing that a foreign candidate does not get.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

NodeConfiguration = Mapping[str, Any]
"""The one JSON document that a node is told (units: seconds, octets)."""


REFUSED = 2
"""Exit code of a node that refuses its configuration, and of a `reload` command that does."""


class NodeError(Exception):
    """A node did not do what the contract asks: `stage` says in which step of its life, `hint` what to look at."""

    def __init__(self, node: str, stage: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{node}: {stage}: {reason}" + (f" ({hint})" if hint else ""))
        self.node = node
        self.stage = stage
        self.reason = reason
        self.hint = hint


class ConfigurationRefused(NodeError):
    """The node would not take its configuration; `reason` is what it said, naming the parameter."""


class WrongNodeState(NodeError):
    """A step came when the node was not in the state that it needs: the scenario took another course than written."""


class CannotRestart(WrongNodeState):
    """A node did not start again on its own queue: what it had acknowledged is out of reach."""


class Unsupported(NodeError):
    """The candidate has no such command (no capability), so what needs it is not applicable."""


class CommandFailed(NodeError):
    """A command of the description left with another code than 0; `output` is the end of its stderr."""

    def __init__(self, node: str, stage: str, code: int, output: str) -> None:
        super().__init__(node, stage, f"exit code {code}: {output}")
        self.code = code
        self.output = output


class Node(Protocol):
    """One node under test.

    Every method raises NodeError when the node does not do its part; none of them waits without a bound.
    """

    name: str

    async def start(self, configuration: NodeConfiguration) -> None:
        """Start on the data that is there; return when every listener answers its greeting.

        Raises ConfigurationRefused when the node refuses its configuration (exit code 2).
        """
        ...

    async def stop(self) -> int:
        """Stop in an orderly way and return the exit code (0 in process)."""
        ...

    async def kill(self) -> None:
        """Kill the whole process tree at once; what was committed stays."""
        ...

    async def wipe(self) -> None:
        """Destroy the queue database of a node that is down."""
        ...

    async def pause(self) -> None:
        """Freeze the node."""
        ...

    async def resume(self) -> None:
        """Thaw the node."""
        ...

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Have the node read its file again. Raises ConfigurationRefused when it would not take it."""
        ...

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run `inspect`, `redirect-messages`, `resubmit`; return its JSON.

        Raises Unsupported when the candidate does not have the command.
        """
        ...

    async def close(self) -> None:
        """End it however it is, and leave nothing behind."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the node ended on its own, or None while it lives or was asked to end."""
        ...

    @property
    def guard(self) -> int | None:
        """The process above the node's own, while it runs; None where it has no processes that are seen from here."""
        ...

    @property
    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory; None where that is not known."""
        ...

    @property
    def log(self) -> Path:
        """The file that holds what the node wrote as its log."""
        ...
