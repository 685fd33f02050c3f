"""The `python` kind: a node in this process, on its event loop; the only kind that can live in virtual time.

A factory of the candidate makes the server (`InProcessNode`), which the `PythonNode` of the harness starts and ends. A
server that is killed is dropped, and the next start makes another one.
"""

import contextlib
import importlib
import logging
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic_core import to_json

from conformance.candidates.description import Candidate
from conformance.candidates.kinds.local import PythonFields
from conformance.history.consistency import inspection_problem
from conformance.nodes.contract import ConfigurationRefused, NodeConfiguration, NodeError, Unsupported
from conformance.nodes.kinds import NodeBase, NodeContext
from conformance.shortage import shortage_of


class WallClock(Protocol):
    """Where a node takes its timestamps from."""

    def now(self) -> float:
        """Return the current time, POSIX seconds."""


class InProcessNode(Protocol):
    """What a factory of the `python` kind returns."""

    failure: str | None
    """Why it failed on its own, or None."""

    async def start(self) -> None:
        """Read the configuration file and open the listeners. Raises ValueError when the configuration is refused."""

    async def stop(self) -> None:
        """End in an orderly way."""

    async def kill(self) -> None:
        """Abort every socket and drop everything that was not committed."""

    async def reload(self) -> None:
        """Read the configuration file again and apply it. Raises ValueError when the configuration is refused."""

    async def command(self, name: str, arguments: Sequence[str]) -> Any:
        """Run a command of the node contract such as `inspect`, and return its result as JSON values (dict, list, str, ...).

        Raises NotImplementedError for one that the node does not have, ValueError for one that it refuses.
        """


Factory = Callable[[Path, WallClock, str | None], InProcessNode]
"""(configuration file, clock, name of a defect or None) -> a node that is down."""


def load_factory(name: str) -> Factory:
    """Import and return the factory that `name` gives as `package.module:factory`. Raises NodeError when that fails."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise NodeError(name, "import", str(error)) from error
    except Exception as error:  # the module is foreign code: whatever it raises is its own failure
        raise NodeError(name, "import", f"{type(error).__name__}: {error}", "an exception of the module") from error


class PythonNode(NodeBase, kind="python"):
    """A node made by a factory, which gets its configuration file and a clock and nothing else of the harness.

    `data` is the data directory that its configuration names; None: `data` in `directory`. A node in this process
    cannot be frozen: `pause` and `resume` call `freeze`, which stops and continues all traffic on its links. `defect`
    names a defect of the reference server, None for none. `_node` is None while the node is down; `_handler` writes the
    log from the first start until `close`.
    """

    def __init__(
        self,
        name: str,
        factory: str,
        directory: Path,
        clock: WallClock,
        *,
        data: Path | None = None,
        defect: str | None = None,
        freeze: Callable[[bool], None] = lambda frozen: None,
    ) -> None:
        self.name = name
        self._factory = load_factory(factory)
        self._directory = directory
        self._data = data or directory / "data"
        self._clock = clock
        self._defect = defect
        self._freeze = freeze
        self._node: InProcessNode | None = None
        self._handler: logging.Handler | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @classmethod
    def prepare(cls, candidate: Candidate) -> None:
        """Import the factory, which may take a second. Raises NodeError."""
        load_factory(PythonFields.of(candidate).factory or "")

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """Return the description's version: this kind has no command to ask."""
        return candidate.version

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """Return a node that is down, with the description's factory and defect."""
        factory, defect = PythonFields.of(context.candidate).factory or "", context.candidate.defect
        return cls(
            context.name,
            factory,
            context.directory,
            context.clock,
            data=context.data,
            defect=defect,
            freeze=context.freeze,
        )

    @property
    def log(self) -> Path:
        """The path of the node's log."""
        return self._directory / "node.log"

    @property
    def guard_pid(self) -> None:
        """None: the node has no process of its own."""

    @property
    def oom_kills(self) -> int:
        """0: the node has no process of its own."""
        return 0

    @property
    def failure(self) -> str | None:
        """Why the node failed on its own; None if it has not, and while it is down."""
        return self._node.failure if self._node is not None else None

    async def start(self, configuration: NodeConfiguration) -> None:
        """Write the file, make the node and start it. Raises ConfigurationRefused for a ValueError of the node.

        Any other exception of the node is a NodeError; what the node has opened by then is closed.
        """
        self._data.mkdir(exist_ok=True)
        if "status_file" in configuration:
            Path(configuration["status_file"]).parent.mkdir(exist_ok=True)  # the node writes its status as it starts
        self._log_to_file()
        path = self._write(configuration)
        node = None
        try:
            node = self._factory(path, self._clock, self._defect)
            await node.start()
        except Exception as error:  # the node is foreign code: whatever it raises is its own failure
            if node is not None:  # it may have opened listeners
                with contextlib.suppress(Exception):  # the first failure is the one to report
                    await node.kill()
            if isinstance(error, ValueError):
                raise ConfigurationRefused(self.name, "start", str(error)) from error
            raise self._failed("start", error) from error
        self._node = node

    async def stop(self) -> int:
        """Stop in an orderly way; return 1 when the node reports a failure, else 0.

        Raises NodeError when it is down, and when the node raises anything; then it still counts as running.
        """
        node = self._running_node("stop")
        try:
            await node.stop()
        except Exception as error:  # the node is foreign code: whatever it raises is its own failure
            raise self._failed("stop", error) from error
        self._node = None
        self._freeze(False)  # the next start is that of a server that is not paused
        return 0 if node.failure is None else 1

    async def kill(self) -> None:
        """Abort every socket and drop everything that was not committed.

        Raises NodeError when the node is down, and when it raises anything; it is dropped all the same.
        """
        node, self._node = self._running_node("kill"), None
        try:
            await node.kill()
        except Exception as error:  # the node is foreign code: whatever it raises is its own failure
            raise self._failed("kill", error) from error
        finally:
            self._freeze(False)  # the next start is that of a server that is not paused

    async def wipe(self) -> None:
        """Delete the data directory of a node that is down, if there is one.

        Raises NodeError when the node is running, OSError when the directory cannot be deleted.
        """
        if self._node is not None:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        if self._data.exists():  # none before the first start
            shutil.rmtree(self._data)

    async def pause(self) -> None:
        """Stop all traffic on the node's links; the node itself goes on."""
        self._freeze(True)

    async def resume(self) -> None:
        """Continue the traffic on the node's links."""
        self._freeze(False)

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the file and have the node read it.

        Raises ConfigurationRefused for a ValueError of the node, and NodeError when it is down or raises any other exception.
        """
        node = self._running_node("reload")
        self._write(configuration)
        try:
            await node.reload()
        except ValueError as error:
            raise ConfigurationRefused(self.name, "reload", str(error)) from error
        except Exception as error:  # the node is foreign code: whatever it raises is its own failure
            raise self._failed("reload", error) from error

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run a command of the node and return its result.

        Raises Unsupported when the node does not have it, and NodeError when the node refuses it (a ValueError, with the reason),
        fails with any other exception, or returns for `inspect` what does not have the contract's shape.
        """
        node = self._running_node(name)
        try:
            answer = await node.command(name, arguments)
        except NotImplementedError as error:
            raise Unsupported(self.name, name, "the candidate has no such command") from error
        except ValueError as error:
            raise NodeError(self.name, name, str(error)) from error
        except Exception as error:  # the node is foreign code: whatever it raises is its own failure
            raise self._failed(name, error) from error
        if name == "inspect" and (why := inspection_problem(answer)):
            raise NodeError(self.name, name, f"what it returned cannot be read: {why}")
        return answer

    def _write(self, configuration: NodeConfiguration) -> Path:
        """Write the configuration file and return its path."""
        path = self._directory / "node.json"
        path.write_bytes(to_json(configuration, indent=1))  # json.dumps() indents in Python, which takes a millisecond
        return path

    def _running_node(self, stage: str) -> InProcessNode:
        """Return the node while it runs. Raises NodeError, naming the stage, when it is down."""
        if self._node is None:
            raise NodeError(self.name, stage, "the node is not running")
        return self._node

    def _failed(self, stage: str, error: Exception) -> NodeError:
        """Return the error that blames an exception of the node on the node."""
        return NodeError(self.name, stage, f"{type(error).__name__}: {error}", "an exception of the node")

    def _log_to_file(self) -> None:
        """Send what the logger `conformance.node.NAME` gets to the node's log; do nothing if it does so already."""
        if self._handler is None:
            self._handler = _LogFile(self.log, encoding="utf-8", delay=True)
            self._handler.setFormatter(_CellTimeFormatter(self._clock))
            logger = logging.getLogger(f"conformance.node.{self.name}")
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(self._handler)

    async def close(self) -> None:
        """Kill the node if it runs, and close its log. Raises NodeError when the node raises anything."""
        try:
            if self._node is not None:
                await self.kill()
        finally:
            self._close_log()

    def _close_log(self) -> None:
        """Close the node's log, if it is open."""
        if self._handler is not None:
            logger = logging.getLogger(f"conformance.node.{self.name}")
            logger.removeHandler(self._handler)
            logger.propagate = True  # as it was: pytest gives handlers of its own to loggers that do not propagate
            self._handler.close()
            self._handler = None


class _LogFile(logging.FileHandler):
    """A log file that drops lines in silence when the disk is full: the cell itself reports that."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the base class calls it so
        """Report an error of writing a line as logging does, on stderr; ignore one that shows that the machine has run out of something."""
        if not shortage_of(sys.exc_info()[1] or Exception()):
            super().handleError(record)


class _CellTimeFormatter(logging.Formatter):
    """Formats lines with a timestamp of the cell's clock, not of the machine's."""

    def __init__(self, clock: WallClock) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._clock = clock

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # logging's name
        """Return the cell's current time, POSIX seconds with three decimals; `datefmt` is ignored."""
        return f"{self._clock.now():.3f}"
