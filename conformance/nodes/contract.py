"""What the harness can ask of a node under test, whatever its kind (docs/node-contract.md).

A node is driven through the interface `Node` only. Its configuration is the JSON document of the contract, rendered by
`conformance.nodes.configuration`; the reference gets nothing that another candidate does not get. The *description* of
a candidate is the YAML file that says how its server is started, and which commands it has for steps such as `inspect`.
A *cell* is one scenario, run with one candidate for each server. The *guard* is a process of the harness (kind `exec`) between
the harness and the processes of a node.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

NodeConfiguration = Mapping[str, Any]
"""The JSON document that a node reads (units: seconds, octets)."""


REFUSED = 2
"""Exit code of a node that refuses its configuration, and of a `reload` command whose node refuses it."""


class NodeError(Exception):
    """A node did not do what the contract asks.

    `node` is its name, `stage` is the step of its life (`start`, `stop`, the name of a command), `reason` says what went
    wrong, and `hint` what to look at ('': nothing).
    """

    def __init__(self, node: str, stage: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{node}: {stage}: {reason}" + (f" ({hint})" if hint else ""))
        self.node = node
        self.stage = stage
        self.reason = reason
        self.hint = hint


class ConfigurationRefused(NodeError):
    """The node refused its configuration; `reason` is its own error message, which should name the parameter."""


class WrongNodeState(NodeError):
    """A step needs a running node and it is down, or the reverse; the cell cannot go on as the scenario describes it."""


class CannotRestart(WrongNodeState):
    """A node that has run before did not start again on its own queue: messages that it acknowledged cannot be reached."""


class Unsupported(NodeError):
    """The candidate's description, or its node in this process, has no such command: a cell that needs it is not applicable."""


class CommandFailed(NodeError):
    """A command of the description exited with a code other than 0.

    `output` is the end of its stderr; for a command whose output goes to the node's log (kind `remote`) an excerpt of that.
    """

    def __init__(self, node: str, stage: str, code: int, output: str) -> None:
        super().__init__(node, stage, f"exit code {code}: {output}")
        self.code = code
        self.output = output


class Node(Protocol):
    """One node under test.

    Every method may raise NodeError: the node does not do its part, or is not in the state (running, down) that the method
    needs. What a process or container does is waited for with a deadline; a node in this process (kind `python`) without one.
    """

    name: str

    async def start(self, configuration: NodeConfiguration) -> None:
        """Start on the existing data and return when every listener has greeted a connection with 220.

        Raises ConfigurationRefused when the node refuses its configuration (exit code 2).
        """

    async def stop(self) -> int:
        """Stop the node in an orderly way, wait for its end, and return its exit code.

        A node whose process the harness does not see returns 0, or 1 after a failure that it reported.
        """

    async def kill(self) -> None:
        """Kill the whole process tree at once; what was committed stays on disk."""

    async def wipe(self) -> None:
        """Destroy the queue database of a node that is down."""

    async def pause(self) -> None:
        """Freeze the node (SIGSTOP, or the like); for a node in this process, stop the traffic on its links instead."""

    async def resume(self) -> None:
        """Let a frozen node go on."""

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the configuration, have the running node read it, and wait until it is applied.

        Raises ConfigurationRefused when the node refuses it.
        """

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run a command and return what it printed: parsed JSON of `inspect`, `redirect-messages` or `resubmit`, else the text.

        `arguments` are a server for `redirect-messages`, a mailbox database for `resubmit`, and none for `inspect`.

        Raises Unsupported when the candidate does not have the command.
        """

    async def close(self) -> None:
        """End the node, whether it runs or not, and release everything that it holds."""

    @property
    def failure(self) -> str | None:
        """Why the node ended without being asked to; None while it runs, and if it has ended only because it was asked to."""

    @property
    def guard_pid(self) -> int | None:
        """The process id of the node's guard; None while it is down, and for a kind whose processes are not visible here."""

    @property
    def oom_kills(self) -> int | None:
        """How many of the node's processes the kernel killed for lack of memory; None where that is not known."""

    @property
    def log(self) -> Path:
        """The path of the node's log."""
