"""What the layer cannot observe: a power cut is refused then, with the reason."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from conformance.candidates.description import Candidate
from conformance.nodes.disks import layer
from conformance.nodes.disks.layer import Layer, UnobservedDisk
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.disks.state_file import Operation, StateFile, Status
from conformance.nodes.exec_node import ExecNode

pytestmark = pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-")


def mounted(directory: Path) -> Layer:
    (directory / "data").mkdir()
    disk = Layer("n", directory / "data", directory / "disk", logs_syncs=True)
    asyncio.run(disk.mount())
    return disk


def run(disk: Layer, program: str, data: Path, environment: Mapping[str, str] | None = None) -> None:
    words = [sys.executable, "-ISB", "-c", f"import os, sys; os.chdir(sys.argv[1])\n{program}", str(data)]
    subprocess.run(words, check=True, env={**os.environ, "LD_PRELOAD": str(disk.library), **(environment or {})})


def built(directory: Path, text: str, *flags: str) -> Path:
    source, program = directory / "program.c", directory / "program"
    source.write_text(text)
    subprocess.run(["cc", "-o", program, source, *flags], check=True)
    return program


WRITES = '#include <stdio.h>\nint main(void) { FILE *f = fopen("f", "w"); fputs("x", f); return fclose(f); }\n'


def test_a_static_program_is_refused_before_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(tmp_path, WRITES, "-static")
    candidate = Candidate.model_validate({"name": "toy", "kind": "exec", "claims": ["relay"], "argv": [str(program)]})
    monkeypatch.chdir(tmp_path)  # where the program would write

    async def start() -> None:
        disk = NodeDisk("n", tmp_path / "node", ["power-cut"], kind="layer")
        node = ExecNode("n", candidate, tmp_path / "node", disk=disk)
        try:
            await node.start({"listeners": {}})
        finally:
            await node.close()

    with pytest.raises(UnobservedDisk, match=r"does not see what .*program does: it is linked statically"):
        asyncio.run(start())
    assert not (tmp_path / "f").exists()


def test_a_layer_without_a_log_of_syncs_accepts_a_static_program(tmp_path: Path) -> None:
    program = built(tmp_path, WRITES, "-static")
    Layer("n", tmp_path, tmp_path / "disk", logs_syncs=False).check_program(str(program))
    with pytest.raises(UnobservedDisk):
        Layer("n", tmp_path, tmp_path / "disk", logs_syncs=True).check_program(str(program))


PROGRAMS_C = next(source for source in layer.SOURCES if source.name == "programs.c").read_text("utf-8")

STARTS = {
    "execv": "C.execv(PATH, ARGV)",
    "execve": "C.execve(PATH, ARGV, NONE)",
    "execvp": "C.execvp(b'program', ARGV)",
    "execvpe": "C.execvpe(b'program', ARGV, NONE)",
    "execl": "C.execl(PATH, b'p', None)",
    "execle": "C.execle(PATH, b'p', None, NONE)",
    "execlp": "C.execlp(b'program', b'p', None)",
    "fexecve": "C.fexecve(os.open(PATH, os.O_RDONLY), ARGV, NONE)",
    "execveat": "C.execveat(-100, PATH, ARGV, NONE, 0)",
    "posix_spawn": "C.posix_spawn(None, PATH, None, None, ARGV, NONE)",
    "posix_spawnp": "C.posix_spawnp(None, b'program', None, None, ARGV, NONE)",
    "os.execv": "os.execv(PATH, ['p'])",
    "os.execvp": "os.execvp('program', ['p'])",
    "os.posix_spawn": "os.posix_spawn(PATH, ['p'], os.environ)",
    "os.posix_spawnp": "os.posix_spawnp('program', ['p'], os.environ)",
    "subprocess": "import subprocess; subprocess.run([PATH])",
    "a script": "os.execv('./script', ['./script'])",
}
"""Ways to start a program, from C functions that the layer replaces to what Python has; NONE is an empty environment."""


def test_every_function_that_starts_a_program_and_that_the_layer_replaces_is_tried() -> None:
    replaced = set(re.findall(r"^(?:int |LISTED\()((?:f?exec|posix_spawn)\w*)[(,]", PROGRAMS_C, re.MULTILINE))
    assert replaced
    assert replaced <= STARTS.keys()


@pytest.mark.parametrize("way", STARTS)
def test_a_static_child_program_makes_a_disk_unobserved(tmp_path: Path, way: str) -> None:
    program, disk = built(tmp_path, WRITES, "-static"), mounted(tmp_path)
    script = tmp_path / "data" / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    disk.wipe()
    words = "ARGV, NONE = (ctypes.c_char_p * 2)(b'p', None), (ctypes.c_char_p * 1)(None)"
    start = f"import ctypes; C = ctypes.CDLL(None); PATH = {str(program).encode()!r}; {words}; {STARTS[way]}"
    run(disk, start, tmp_path / "data", {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(
        UnobservedDisk,
        match=r"does not see all that it does to its disk: .*(program|script|fd/\d+) is linked statically",
    ):
        disk.cut_power()


def test_a_cleaned_environment_makes_a_disk_unobserved(tmp_path: Path) -> None:
    program, disk = built(tmp_path, WRITES), mounted(tmp_path)
    run(disk, f"os.execve({str(program)!r}, ['p'], os.environ)", tmp_path / "data")
    disk.cut_power()
    asyncio.run(disk.mount())
    run(disk, f"os.execve({str(program)!r}, ['p'], {{}})", tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="program is started with a cleaned environment"):
        disk.cut_power()


def test_a_program_with_the_mark_of_the_go_linker_makes_a_disk_unobserved(tmp_path: Path) -> None:
    """The program is linked dynamically."""
    mark = '__attribute__((used)) static char go[] = "\\xff Go buildinf:";\n'
    program, disk = built(tmp_path, mark + WRITES), mounted(tmp_path)
    run(disk, f"os.execv({str(program)!r}, ['p'])", tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="program is a Go program"):
        disk.cut_power()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_setuid_program_makes_a_disk_unobserved(tmp_path: Path) -> None:
    program, disk = built(tmp_path, WRITES), mounted(tmp_path)
    (tmp_path / "data").chmod(0o777)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    run(disk, f"os.execv({str(program)!r}, ['p'])", tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="program is setuid"):
        disk.cut_power()


def test_opening_with_o_direct_makes_a_disk_unobserved(tmp_path: Path) -> None:
    disk = mounted(tmp_path)
    run(disk, "open('f', 'w').close(); os.open('f', os.O_WRONLY | os.O_DIRECT)", tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="f is opened with O_DIRECT"):
        disk.cut_power()


def test_io_uring_makes_a_disk_unobserved(tmp_path: Path) -> None:
    disk = mounted(tmp_path)
    ring = "import ctypes; C = ctypes.CDLL(None, use_errno=True); print(C.syscall(425, 4, ctypes.create_string_buffer(256)))"
    run(disk, ring, tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="io_uring is used, around the C library"):
        disk.cut_power()


@pytest.mark.parametrize("name", re.findall(r'^AROUND\((\w+), "io_uring"\)$', PROGRAMS_C, re.MULTILINE))
def test_the_library_of_io_uring_makes_a_disk_unobserved(tmp_path: Path, name: str) -> None:
    """The library built here stands for liburing, whose system calls do not go through the C library."""
    source, library = tmp_path / "liburing.c", tmp_path / "liburing.so"
    source.write_text(f"int {name}(void) {{ return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    text = f"int {name}(void);\nint main(void) {{ return {name}(); }}\n"
    program, disk = built(tmp_path, text, str(library)), mounted(tmp_path)
    run(disk, f"os.execv({str(program)!r}, ['p'])", tmp_path / "data")
    with pytest.raises(UnobservedDisk, match="io_uring is used, around the C library"):
        disk.cut_power()


def test_syncs_and_a_rename_by_the_number_of_their_system_call_are_observed(tmp_path: Path) -> None:
    """The numbers are those of fsync, renameat2, fdatasync and syncfs."""
    disk = mounted(tmp_path)
    run(
        disk,
        "import ctypes; C = ctypes.CDLL(None); fd = os.open('f', os.O_CREAT | os.O_WRONLY); os.write(fd, b'x'); "
        "C.syscall(74, fd); C.syscall(316, -100, b'f', -100, b'g', 0); os.write(fd, b'y'); C.syscall(75, fd); C.syscall(74, os.open('.', 0))",
        tmp_path / "data",
    )
    disk.cut_power("what-posix-promises")
    assert {path.name: path.read_text() for path in (tmp_path / "data").iterdir()} == {"g": "xy"}
    asyncio.run(disk.mount())
    run(
        disk,
        "import ctypes; C = ctypes.CDLL(None); fd = os.open('h', os.O_CREAT | os.O_WRONLY); os.write(fd, b'z'); "
        "C.syscall(306, fd); os.write(fd, b'lost')",
        tmp_path / "data",
    )
    disk.cut_power("what-posix-promises")
    assert {path.name: path.read_text() for path in (tmp_path / "data").iterdir()} == {"g": "xy", "h": "z"}


@pytest.mark.parametrize(
    ("done", "change"),
    [
        ("os.symlink('f', 'new')", "new was made"),
        ("os.unlink('f')", "f was taken away"),
        ("os.rename('g', 'f')", "f was replaced"),
    ],
)
def test_a_change_by_an_unobserved_call_makes_a_disk_unobserved(tmp_path: Path, done: str, change: str) -> None:
    disk = mounted(tmp_path)
    run(disk, "open('f', 'w').close(); open('g', 'w').close()", tmp_path / "data")
    subprocess.run([sys.executable, "-c", f"import os; {done}"], cwd=tmp_path / "data", check=True)
    with pytest.raises(UnobservedDisk, match=f"{change} by a call that it does not observe"):
        disk.cut_power()
    with pytest.raises(UnobservedDisk, match="by a call that it does not observe"):
        asyncio.run(disk.mount())


def test_sockets_do_not_make_a_disk_unobserved(tmp_path: Path) -> None:
    disk = mounted(tmp_path)
    run(
        disk,
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); os.rename('s', 't'); s.close(); "
        "s = socket.socket(socket.AF_UNIX); s.bind('s'); os.unlink('s'); open('f', 'w').close()",
        tmp_path / "data",
    )
    disk.cut_power()
    assert list((tmp_path / "data").iterdir()) == []


def test_a_program_in_a_chroot_is_observed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for chroot")
    disk = mounted(tmp_path)
    run(
        disk,
        "os.mkdir('jail'); os.chroot('jail'); os.chdir('/'); fd = os.open('f', os.O_CREAT | os.O_WRONLY); "
        "os.write(fd, b'x'); os.fsync(fd); os.rename('/f', '/g'); os.fsync(os.open('/', 0))",
        tmp_path / "data",
    )
    disk.cut_power()
    assert (tmp_path / "data" / "jail" / "g").read_text() == "x"


def test_a_program_that_drops_privileges_and_closes_all_files_is_observed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give up rights")
    disk = mounted(tmp_path)
    (tmp_path / "data").chmod(0o777)
    run(
        disk,
        "os.closerange(3, 4096); os.setuid(65534); fd = os.open('f', os.O_CREAT | os.O_WRONLY, 0o600); os.write(fd, b'x'); "
        "os.fsync(fd)",
        tmp_path / "data",
    )
    disk.cut_power()
    kept = tmp_path / "data" / "f"
    assert (kept.read_text(), kept.stat().st_uid, kept.stat().st_mode & 0o777) == ("x", 65534, 0o600)


EXCHANGES = "import ctypes; ctypes.CDLL(None).renameat2(-100, b'f', -100, b'd', 2)"


@pytest.mark.parametrize(
    ("does", "operation", "undone", "before", "after"),
    [
        ("open('f', 'w').close()", Operation.CREATE, "", {"f"}, {"f"}),
        ("open('f', 'w').close()", Operation.CREATE, "os.unlink('f')", set(), set()),
        ("open('f', 'w').close(); os.unlink('f')", Operation.UNLINK, "", set(), set()),
        (
            "open('f', 'w').close(); os.link('f', 'g'); os.unlink('f')",
            Operation.UNLINK,
            "os.link('g', 'f')",
            {"f", "g"},
            {"f", "g"},
        ),
        ("open('f', 'w').close(); os.rename('f', 'g')", Operation.RENAME, "", {"g"}, {"g"}),
        ("open('f', 'w').close(); os.rename('f', 'g')", Operation.RENAME, "os.rename('g', 'f')", {"f"}, {"f"}),
        ("open('f', 'w').close(); os.link('f', 'g')", Operation.LINK, "", {"f", "g"}, {"f", "g"}),
        ("open('f', 'w').close(); os.link('f', 'g')", Operation.LINK, "os.unlink('g')", {"f"}, {"f"}),
        (f"open('f', 'w').close(); os.mkdir('d'); {EXCHANGES}", Operation.EXCHANGE, "", {"f/", "d"}, {"f/", "d"}),
        (
            f"open('f', 'w').close(); os.mkdir('d'); {EXCHANGES}",
            Operation.EXCHANGE,
            EXCHANGES,
            {"f", "d/"},
            {"f", "d/"},
        ),
    ],
)
def test_the_disk_shows_whether_an_interrupted_call_was_done(
    tmp_path: Path, does: str, operation: Operation, undone: str, before: set[str], after: set[str]
) -> None:
    """Its record is only begun; the layer looks at the disk to decide. A directory's name ends in /."""

    def found() -> set[str]:
        return {path.name + "/" * path.is_dir() for path in data.iterdir()}

    disk = mounted(tmp_path)
    data = tmp_path / "data"
    run(disk, does, data)
    subprocess.run([sys.executable, "-c", f"import os; {undone}"], cwd=data, check=True)
    state = StateFile(tmp_path / "disk" / "state")
    record = next(record for record in state.records() if record.operation is operation)
    is_known = operation in (Operation.UNLINK, Operation.RENAME, Operation.EXCHANGE)  # before the call
    state.set_outcome(record, Status.BEGUN, record.ino if is_known else 0, record.mode)
    assert found() == before
    asyncio.run(disk.mount())
    run(disk, "fd = os.open('.', 0); os.fsync(fd)", data)
    disk.cut_power()
    assert found() == after


def test_a_surviving_file_keeps_its_inode(tmp_path: Path) -> None:
    """Postfix names its files by their inodes."""
    disk = mounted(tmp_path)
    data = tmp_path / "data"
    run(
        disk, "fd = os.open('f', os.O_CREAT | os.O_WRONLY); os.write(fd, b'x'); os.fsync(fd); os.rename('f', 'g')", data
    )
    before = (data / "g").stat().st_ino
    disk.cut_power()
    assert {path.name: path.stat().st_ino for path in data.iterdir()} == {"f": before}


def test_the_layer_compiles_without_a_warning(tmp_path: Path) -> None:
    sources = [str(source) for source in layer.SOURCES if source.suffix == ".c"]
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["cc", *strict, "-o", tmp_path / "layer.so", *sources], check=True)


def test_concurrent_processes_and_threads_are_all_observed(tmp_path: Path) -> None:
    disk = mounted(tmp_path)
    work = (
        "import threading\n"
        "def work(who):\n"
        "    for n in range(25):\n"
        "        fd = os.open(f't{who}', os.O_CREAT | os.O_WRONLY); os.write(fd, f'{who}-{n} '.encode() * 1000)\n"
        "        os.fsync(fd); os.close(fd)\n"
        "        os.rename(f't{who}', f'm{who}-{n}')\n"
        "for p in range(4):\n"
        "    if os.fork() == 0:\n"
        "        threads = [threading.Thread(target=work, args=(f'{p}{t}',)) for t in range(3)]\n"
        "        [t.start() for t in threads]; [t.join() for t in threads]; os._exit(0)\n"
        "for p in range(4):\n"
        "    assert os.wait()[1] == 0\n"
        "fd = os.open('.', 0); os.fsync(fd)\n"
    )
    run(disk, work, tmp_path / "data")
    disk.cut_power()
    names = [f"{p}{t}-{n}" for p in range(4) for t in range(3) for n in range(25)]
    found = {path.name: path.read_text() for path in (tmp_path / "data").iterdir()}
    assert found == {f"m{name}": f"{name} " * 1000 for name in names}


STOPS_IN_A_CALL = """\
#include <unistd.h>
int unlinkat(int at, const char *path, int flags)
{
    while (write(1, "\\n", 1) == 1)
        pause();
    return at + *path + flags;
}
"""
"""What the layer finds in place of the C library's function: it says that the layer has called it, and does not return."""


@pytest.mark.parametrize("is_mounted_anew", [True, False])
@pytest.mark.parametrize("amid_a_call", [False, True])
def test_programs_that_are_killed_at_work_do_not_block_the_next(
    tmp_path: Path, amid_a_call: bool, is_mounted_anew: bool
) -> None:
    """Amid a call a program holds the lock of the log; only a new mount makes a new one. A program that waits for it is ended."""
    disk = mounted(tmp_path)
    preloaded = str(disk.library)
    if amid_a_call:
        preloaded += f" {built(tmp_path, STOPS_IN_A_CALL, '-shared', '-fPIC')}"
    work = "for n in range(200):\n    open('f', 'w').close(); os.rename('f', 'g'); os.unlink('g'); print(flush=True)"
    head = "import os, signal, sys; signal.alarm(20); os.chdir(sys.argv[1])"
    words = [sys.executable, "-ISB", "-c", f"{head}\n{work}", str(tmp_path / "data")]
    for rounds in (1, 1, 1) if amid_a_call else range(1, 16):
        with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": preloaded}) as program:
            assert program.stdout is not None
            for _ in range(rounds):
                assert program.stdout.readline() == b"\n", "it works"
            program.kill()
        if is_mounted_anew:
            asyncio.run(disk.mount())
    disk.cut_power()
    assert list((tmp_path / "data").iterdir()) == []
