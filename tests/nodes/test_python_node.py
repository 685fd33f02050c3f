"""A node in the process of the harness, whose code may raise anything."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.contract import ConfigurationRefused, NodeError
from conformance.nodes.python_node import PythonNode


class BrokenNode:
    """Opens a listener, and then fails to start with `error`; without one it starts, and fails to reload."""

    failure = None

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.servers: list[asyncio.Server] = []
        MADE.append(self)

    async def start(self) -> None:
        self.servers.append(await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0))
        if self.error is not None:
            raise self.error

    async def reload(self) -> None:
        raise AttributeError("no such attribute")

    async def kill(self) -> None:
        for server in self.servers:
            server.close()


def create(path: Path, clock: Any, defect: str | None = None) -> BrokenNode:
    return BrokenNode(AttributeError("no such attribute"))


def create_nothing(path: Path, clock: Any, defect: str | None = None) -> BrokenNode:
    raise AttributeError("no such attribute")


def create_refusing(path: Path, clock: Any, defect: str | None = None) -> BrokenNode:
    return BrokenNode(ValueError("no such site"))


def create_failing_later(path: Path, clock: Any, defect: str | None = None) -> BrokenNode:
    return BrokenNode(None)


class Clock:
    """A clock that stands still."""

    def wall_now(self) -> float:
        return 0.0


MADE: list[BrokenNode] = []


async def start_and_close(directory: Path, factory: str, error: type[Exception], text: str, *, made: int = 1) -> None:
    MADE.clear()
    node = PythonNode("mbx1", f"{__name__}:{factory}", directory, Clock())  # type: ignore[arg-type]
    with pytest.raises(error, match=text) as raised:
        await node.start({})  # type: ignore[arg-type]
    assert type(raised.value) is error, "a failure is no refusal of the configuration"
    assert [server.is_serving() for one in MADE for server in one.servers] == [False] * made
    await node.close()


def test_an_exception_as_a_node_starts_is_the_failure_of_the_node(tmp_path: Path):
    said = "mbx1: start: AttributeError: no such attribute"
    asyncio.run(start_and_close(tmp_path, "create", NodeError, said))
    asyncio.run(start_and_close(tmp_path, "create_nothing", NodeError, said, made=0))


def test_a_node_that_refuses_its_configuration_after_it_opened_a_listener_is_closed(tmp_path: Path):
    asyncio.run(start_and_close(tmp_path, "create_refusing", ConfigurationRefused, "mbx1: start: no such site"))


def test_an_exception_as_a_node_reloads_is_the_failure_of_the_node(tmp_path: Path):
    async def reload() -> None:
        node = PythonNode("mbx1", f"{__name__}:create_failing_later", tmp_path, Clock())  # type: ignore[arg-type]
        await node.start({})  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="mbx1: reload: AttributeError: no such attribute"):
            await node.reload({})  # type: ignore[arg-type]
        await node.close()

    asyncio.run(reload())


class NodeWithANullItem:
    """Returns for `inspect` a queue in which an item is null."""

    failure = None

    async def start(self) -> None:
        """Open nothing."""

    async def kill(self) -> None:
        """Close nothing."""

    async def command(self, name: str, arguments: tuple[str, ...]) -> Any:
        return {"database": "1", "queues": [{"queue": "q", "kind": "shadow", "items": [None]}], "delivered_to": 0}


def create_with_a_null_item(path: Path, clock: Any, defect: str | None = None) -> NodeWithANullItem:
    return NodeWithANullItem()


def test_an_answer_to_inspect_of_another_shape_is_the_failure_of_the_node(tmp_path: Path):
    async def inspect() -> None:
        node = PythonNode("mbx1", f"{__name__}:create_with_a_null_item", tmp_path, Clock())  # type: ignore[arg-type]
        await node.start({})  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="mbx1: inspect: what it returned cannot be read: queues.0.items.0"):
            await node.command("inspect")
        await node.close()

    asyncio.run(inspect())


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise ValueError('no such default')", "ValueError: no such default"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("", "module 'fails_at_import' has no attribute 'create'"),
    ],
)
def test_an_exception_as_a_factory_is_imported_is_the_failure_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
):
    (tmp_path / "fails_at_import.py").write_text(module, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fails_at_import", raising=False)
    with pytest.raises(NodeError, match=f"fails_at_import:create: import: {said}"):
        PythonNode("mbx1", "fails_at_import:create", tmp_path / "node", Clock())  # type: ignore[arg-type]


class NodeThatCannotEnd:
    """Fails to stop and to be killed."""

    failure = None

    async def start(self) -> None:
        """Open nothing."""

    async def stop(self) -> None:
        raise KeyError("no such session")

    async def kill(self) -> None:
        raise RuntimeError("no such socket")


def create_that_cannot_end(path: Path, clock: Any, defect: str | None = None) -> NodeThatCannotEnd:
    return NodeThatCannotEnd()


def test_an_exception_as_a_node_ends_is_the_failure_of_the_node(tmp_path: Path):
    async def end() -> None:
        node = PythonNode("mbx1", f"{__name__}:create_that_cannot_end", tmp_path, Clock())  # type: ignore[arg-type]
        await node.start({})  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="mbx1: stop: KeyError: 'no such session'"):
            await node.stop()
        with pytest.raises(NodeError, match="mbx1: kill: RuntimeError: no such socket"):
            await node.kill()
        await node.close()  # it was dropped
        await node.start({})  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="mbx1: kill: RuntimeError: no such socket"):
            await node.close()
        await node.close()  # it was dropped then too

    asyncio.run(end())


def test_a_node_can_be_wiped_before_its_first_start(tmp_path: Path):
    async def wipe() -> None:
        node = PythonNode("mbx1", f"{__name__}:create_failing_later", tmp_path, Clock())  # type: ignore[arg-type]
        await node.wipe()
        await node.start({})  # type: ignore[arg-type]
        await node.kill()
        assert (tmp_path / "data").is_dir()
        await node.wipe()
        assert not (tmp_path / "data").exists()
        await node.close()

    asyncio.run(wipe())
