"""A program of another user makes links, pipes and deep directories: a harness that is root changes no other file through them."""

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import psutil
import pytest

from conformance.candidates.description import Candidate
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.results.compression import LEFT_OUT, archive_attachments
from conformance.results.kept_nodes import delete_node_data, keep_node_directories, kept_directory
from conformance.results.layout import archive_path
from conformance.untrusted import tree
from tests.nodes import programs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="a server of another user needs a harness that is root"),
]

SECRET = "of root alone\n"


@dataclass(frozen=True)
class Place:
    """A directory that another user can enter, with a file and a folder of root and the directory of a node."""

    root: Path

    @property
    def secret(self) -> Path:
        return self.root / "secret"

    @property
    def folder(self) -> Path:
        return self.root / "folder"

    @property
    def cell(self) -> Path:
        return self.root / "cells" / "one"

    @property
    def node(self) -> Path:
        return self.cell / "mta1"

    def assert_unchanged(self) -> None:
        found = self.secret.lstat()
        assert stat.S_ISREG(found.st_mode)
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
        assert self.secret.read_text() == SECRET
        inside = self.folder / "precious"
        assert (self.folder.lstat().st_uid, inside.lstat().st_uid, inside.read_text()) == (0, 0, SECRET)
        assert [path.name for path in self.folder.iterdir()] == ["precious"]


@pytest.fixture
def place() -> Iterator[Place]:
    root = Path(tempfile.mkdtemp(dir="/var/tmp"))
    root.chmod(0o755)
    place = Place(root)
    place.folder.mkdir(mode=0o700)
    (place.folder / "precious").write_text(SECRET)
    place.secret.write_text(SECRET)
    place.secret.chmod(0o600)
    place.cell.mkdir(parents=True)
    yield place
    shutil.rmtree(root)


@pytest.fixture
def configuration() -> Iterator[NodeConfiguration]:
    leases = PortLeases()
    yield {"listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}}}
    leases.release()


def node_that(place: Place, attack: str) -> ExecNode:
    """Make a node of an unprivileged user that attacks before it listens; `own`, `secret` and `folder` are paths."""
    script = place.root / "program.py"
    variables = f"own, secret, folder = {str(place.node)!r}, {str(place.secret)!r}, {str(place.folder)!r}"
    script.write_text(f"import os\n{variables}\nos.chdir(own)\n{attack}\n{programs.GREETS}")
    fields = {
        "name": "toy", "kind": "exec", "claims": ("relay",), "user": "nobody", "ready-within": 10, "stop-within": 2,
        "argv": ("/usr/bin/env", "python3", "-S", str(script), "{config}"), "files": {"etc/main.cf": "a = b\n"},
    }  # fmt: skip
    return ExecNode("mta1", Candidate.model_validate(fields), place.node)


async def start_twice(node: ExecNode, configuration: NodeConfiguration) -> None:
    """Start a node, kill it, wipe it, start it again and reload it: all that the harness does in its directory."""
    try:
        await node.start(configuration)
        await node.kill()
        await node.wipe()
        await node.start(configuration)
        await node.reload(configuration)
    finally:
        await node.close()


def error_of(steps: Callable[[ExecNode, NodeConfiguration], Awaitable[object]], *args: object) -> str:
    """Run the steps with a node; return the message of the NodeError, '' if there was none."""

    async def bounded() -> str:
        try:
            async with asyncio.timeout(60):
                await steps(*args)  # type: ignore[arg-type]
        except NodeError as error:
            return str(error)
        return ""

    return asyncio.run(bounded())


ATTACKS = {
    "a link to a file": "os.path.lexists('x') or os.symlink(secret, 'x')",
    "a link to a folder": "os.path.lexists('x') or os.symlink(folder, 'x')",
    "a second name of a file": "",
    "the document is a link": (
        "import json, sys; text = open(sys.argv[1]).read(); sys.argv[1] = 'copy'; "
        "open('copy', 'w').write(text); os.unlink('node.json'); os.symlink(secret, 'node.json')"
    ),
    "the data are a link": "os.path.islink('data') or (os.rmdir('data'), os.symlink(folder, 'data'))",
    "a link in the data": "os.path.lexists('data/x') or os.symlink(folder, 'data/x')",
    "a file is a link": "os.unlink('etc/main.cf'); os.symlink(secret, 'etc/main.cf')",
    "a file's folder is a link": "os.path.islink('etc') or (os.rename('etc', 'old'), os.symlink(folder, 'etc'))",
    "the log is a link": "os.path.islink('node.log') or (os.unlink('node.log'), os.symlink(secret, 'node.log'))",
}


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_harness_follows_no_link_in_a_node_s_directory(place: Place, configuration: NodeConfiguration, attack: str):
    if attack == "a second name of a file":  # many kernels let only root make this link
        place.node.mkdir()
        (place.node / "x").hardlink_to(place.secret)
    said = error_of(start_twice, node_that(place, ATTACKS[attack]), configuration)
    place.assert_unchanged()
    assert SECRET not in f"{said}\n"
    assert SECRET not in (place.node / "node.log").read_text(), "nothing was read through a link either"
    if attack in ("the data are a link", "a file's folder is a link"):
        assert "its directory: " in said, "the harness reports what it could not do"
    else:
        assert said.startswith("mta1: reload: no answer in its log"), (
            "all earlier steps were done; it answers no reload"
        )
    assert psutil.Process().children(recursive=True) == []


INSTEAD_OF_THE_LOG = {
    "nothing": "",
    "a directory": "os.makedirs('node.log/a/b')",
    "a pipe": "os.mkfifo('node.log')",
    "a link": "os.symlink(secret, 'node.log')",
    "a socket": "import socket; socket.socket(socket.AF_UNIX).bind('node.log')",
}


@pytest.mark.parametrize("instead", INSTEAD_OF_THE_LOG)
def test_a_node_that_deletes_its_log_and_exits_is_reported_with_exit_code_and_output(
    place: Place, configuration: NodeConfiguration, instead: str
):
    attack = f"os.unlink('node.log')\n{INSTEAD_OF_THE_LOG[instead]}\nprint('my last words', flush=True); os._exit(7)"

    async def steps(node: ExecNode, configuration: NodeConfiguration) -> None:
        try:
            await node.start(configuration)
        finally:
            await node.close()

    assert "it exited with exit code 7: my last words" in error_of(steps, node_that(place, attack), configuration)
    assert (place.node / "node.log").read_text() == "my last words\n"
    assert stat.S_ISREG((place.node / "node.log").lstat().st_mode)
    place.assert_unchanged()


def fill_node_directory(place: Place) -> None:
    """Make in a node's directory all that a node could: links, a hard link, a huge sparse file, a deep folder."""
    (place.node / "data").mkdir(parents=True)
    (place.node / "node.json").write_text("[" * 100_000)
    (place.node / "log.log").write_text("hello\n")
    (place.node / "out").symlink_to(place.folder)
    os.mkfifo(place.node / "pipe")
    with (place.node / "holes").open("wb") as file:
        file.truncate(1 << 42)
    for path in place.node.iterdir():
        os.chown(path, 65534, 65534, follow_symlinks=False)
    os.chown(place.node, 65534, 65534)
    os.link(place.secret, place.node / "second")
    handle = os.open(place.node / "data", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 100, dir_fd=handle)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)


def test_an_archive_has_no_file_of_another_user_no_sparse_file_and_no_deep_path(place: Place):
    fill_node_directory(place)
    archive_attachments(place.cell)
    place.assert_unchanged()
    assert not place.cell.exists()
    with ZipFile(archive_path(place.cell)) as archive:
        names = set(archive.namelist())
        assert names == {"mta1/node.json", "mta1/log.log", LEFT_OUT}
        left_out = archive.read(LEFT_OUT).decode().splitlines()
    deep = "mta1/data/" + ("d" * 100 + "/") * 3000 + "file"
    assert set(left_out) == {"mta1/holes", "mta1/second", deep[-300:]}


@pytest.mark.long
def test_kept_directories_have_no_file_of_another_user_and_no_sparse_file(place: Place):
    fill_node_directory(place)
    keep_node_directories(place.cell.with_name("one.jsonl"), place.cell)
    delete_node_data(place.cell)
    place.assert_unchanged()
    kept = kept_directory(place.cell.with_name("one.jsonl"))
    assert {path.name for path in (kept / "mta1").iterdir()} == {"data", "node.json", "log.log", "out"}
    assert (kept / "mta1" / "out").is_symlink()
    assert (kept / "mta1" / "node.json").read_text() == "null"
    assert not (place.node / "data").exists()
    tree.delete_tree(kept)


def test_a_directory_deeper_than_the_longest_path_is_measured_and_deleted(tmp_path: Path):
    (tmp_path / "cells").mkdir()
    place = Place(tmp_path)
    place.folder.mkdir()
    place.secret.write_text(SECRET)
    fill_node_directory(place)
    assert 3000 * 4096 // 2 < tree.disk_usage(str(place.node)) < 1 << 30, (
        "the folders, and not the holes of a sparse file"
    )
    assert tree.delete_tree(place.node)
    assert not place.node.exists()


def test_deletion_does_not_enter_a_mount(place: Place):
    (place.node / "data" / "mounted").mkdir(parents=True)
    inside = place.node / "data" / "mounted"
    os.system(f"mount -t tmpfs none {inside}")  # noqa: S605  # our own path
    try:
        (inside / "precious").write_text(SECRET)
        assert not tree.delete_tree(place.node / "data")
        assert (inside / "precious").read_text() == SECRET
    finally:
        os.system(f"umount {inside}")  # noqa: S605
    assert tree.delete_tree(place.node / "data"), "nothing is mounted there any more"
    assert not (place.node / "data").exists()
