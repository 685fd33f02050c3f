"""The `python` kind: a node in this process, on this loop; the only kind that can live in virtual time."""

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
from conformance.nodes.contract import ConfigurationRefused, NodeConfiguration, NodeError, Unsupported
from conformance.nodes.kinds import NodeBase, NodeContext
from conformance.shortage import shortage_of


class WallClock(Protocol):
    """Where a node takes its stamps from: POSIX seconds."""

    def now(self) -> float:
        """Return the current time, POSIX seconds."""
        ...


class InProcess(Protocol):
    """What a factory of the `python` kind makes."""

    failure: str | None

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def kill(self) -> None: ...
    async def reload(self) -> None: ...
    async def command(self, name: str, arguments: Sequence[str]) -> Any: ...


Factory = Callable[[Path, WallClock, str | None], InProcess]


def load_factory(name: str) -> Factory:
    """Import `package.module:factory`. Raises NodeError when it is not there."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise NodeError(name, "import", str(error)) from error


class PythonNode(NodeBase, kind="python"):
    """A node made by a factory; it gets its file and a clock, and nothing else of the harness.

    `data` is the data directory that its configuration names; below `directory` when it is not given.

    Freezing has no equivalent inside one process: `pause` and `resume` are what `freeze` does to the node's links, so
    that nothing comes in or goes out.
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
        self._make = load_factory(factory)
        self._directory = directory
        self._data = data or directory / "data"
        self._clock = clock
        self._defect = defect
        self._freeze = freeze
        self._node: InProcess | None = None
        self._handler: logging.Handler | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @classmethod
    def prepare(cls, candidate: Candidate) -> None:
        """See NodeBase; importing a factory takes a second."""
        load_factory(PythonFields.of(candidate).factory or "")

    @classmethod
    async def version(cls, candidate: Candidate) -> str:
        """See NodeBase; it has no command."""
        return candidate.version

    @classmethod
    def create(cls, context: NodeContext) -> Self:
        """See NodeBase."""
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
        """The node's log."""
        return self._directory / "node.log"

    @property
    def guard(self) -> None:
        """None: it lives in this process."""

    @property
    def oom_kills(self) -> int:
        """None of its own: it lives in this process."""
        return 0

    @property
    def failure(self) -> str | None:
        """Why it failed on its own, or None."""
        return self._node.failure if self._node is not None else None

    async def start(self, configuration: NodeConfiguration) -> None:
        """Make the node and start it."""
        self._data.mkdir(exist_ok=True)
        if "status_file" in configuration:
            Path(configuration["status_file"]).parent.mkdir(exist_ok=True)  # once, before it starts
        self._log_to_file()
        path = self._write(configuration)
        try:
            node = self._make(path, self._clock, self._defect)
            await node.start()
        except ValueError as error:
            raise ConfigurationRefused(self.name, "start", str(error)) from error
        self._node = node

    async def stop(self) -> int:
        """Stop in an orderly way; return 1 where that failed."""
        node = self._running("stop")
        await node.stop()
        self._gone()
        return 0 if node.failure is None else 1

    async def kill(self) -> None:
        """Abort every socket and drop all that was not committed."""
        await self._running("kill").kill()
        self._gone()

    async def wipe(self) -> None:
        """Delete the data directory's content."""
        if self._node is not None:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        shutil.rmtree(self._data, ignore_errors=False)

    async def pause(self) -> None:
        """Let nothing in or out."""
        self._freeze(True)

    async def resume(self) -> None:
        """Let things in and out again."""
        self._freeze(False)

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the file anew and have it read."""
        node = self._running("reload")
        self._write(configuration)
        try:
            await node.reload()
        except ValueError as error:
            raise ConfigurationRefused(self.name, "reload", str(error)) from error

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run one of the node's own commands."""
        try:
            return await self._running(name).command(name, arguments)
        except NotImplementedError as error:
            raise Unsupported(self.name, name, "the candidate has no such command") from error

    def _write(self, configuration: NodeConfiguration) -> Path:
        path = self._directory / "node.json"
        path.write_bytes(to_json(configuration, indent=1))  # json.dumps() indents in Python, which takes a millisecond
        return path

    def _running(self, stage: str) -> InProcess:
        if self._node is None:
            raise NodeError(self.name, stage, "the node is not running")
        return self._node

    def _log_to_file(self) -> None:
        if self._handler is None:
            self._handler = _Log(self.log, encoding="utf-8", delay=True)
            self._handler.setFormatter(_Stamped(self._clock))
            logger = logging.getLogger(f"conformance.node.{self.name}")
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(self._handler)

    def _gone(self) -> None:
        self._node = None

    async def close(self) -> None:
        """End the node however it is, and let go of its log."""
        if self._node is not None:
            await self.kill()
        if self._handler is not None:
            logger = logging.getLogger(f"conformance.node.{self.name}")
            logger.removeHandler(self._handler)
            logger.propagate = True  # as it was: pytest gives handlers of its own to those that do not
            self._handler.close()
            self._handler = None


class _Log(logging.FileHandler):
    """A log that ends where the disk is full: the cell itself says that it is."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the base class calls it so
        """Say nothing more of a disk that is full."""
        if not shortage_of(sys.exc_info()[1] or Exception()):
            super().handleError(record)


class _Stamped(logging.Formatter):
    """Stamps lines with the cell's clock, not the machine's."""

    def __init__(self, clock: WallClock) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._clock = clock

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # logging's name
        return f"{self._clock.now():.3f}"
