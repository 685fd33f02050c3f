"""What a power cut leaves on a real file system after some calls.

The module is also a program that runs as root in its own mount namespace: `python file_systems.py KIND IMAGE`. It reads a
JSON object from standard input (`before`: the files on the disk at first; `program`: the program that makes the calls) and
prints the files that the cut leaves. The kernel removes the mounts when the namespace ends.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["ext4", "xfs", "btrfs"]


@dataclass(frozen=True)
class FileSystem:
    """How a file system is made and mounted; `octets` is its smallest possible size."""

    octets: int
    make: tuple[str, ...]
    options: str


FILE_SYSTEMS: dict[Kind, FileSystem] = {
    "ext4": FileSystem(64 << 20, ("mkfs.ext4", "-q", "-F"), "loop,noatime,commit=300"),
    "xfs": FileSystem(320 << 20, ("mkfs.xfs", "-q"), "loop,noatime,nouuid"),
    "btrfs": FileSystem(128 << 20, ("mkfs.btrfs", "-q", "-M"), "loop,noatime,commit=300"),
}

LISTS = """
import json, os, sys
found = {}
for where, directories, files in os.walk(sys.argv[1], followlinks=True):
    below = os.path.relpath(where, sys.argv[1])
    for file in files:
        with open(os.path.join(where, file)) as text:
            found[os.path.normpath(os.path.join(below, file))] = text.read()
    if not files and not directories and below != ".":
        found[below + "/"] = ""
found.pop("lost+found/", None)
print(json.dumps(found))
"""


def missing(kind: Kind) -> str:
    """Return why this machine cannot have a file system of that kind, '' if it can."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        return "needs root and loop devices"
    if shutil.which(tool := FILE_SYSTEMS[kind].make[0]) is None:
        return f"needs {tool}"
    with Path("/proc/filesystems").open() as known:
        return "" if any(line.split()[-1] == kind for line in known) else f"the kernel knows no {kind}"


def make(kind: Kind, image: Path) -> None:
    """Make a new file system in a file."""
    with image.open("wb") as file:
        file.truncate(FILE_SYSTEMS[kind].octets)
    subprocess.run([*FILE_SYSTEMS[kind].make, str(image)], check=True, capture_output=True)


def after_cut(kind: Kind, image: Path, before: dict[str, str], program: str) -> dict[str, str]:
    """Return the files that a power cut leaves after a program; its argument is the root of the file system."""
    words = ["unshare", "-m", "--propagation", "private", sys.executable, "-SEB", __file__, kind, str(image)]
    request = json.dumps({"before": before, "program": program})
    done = subprocess.run(words, input=request, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _main(kind: Kind, image: Path) -> None:
    request, root, cut = json.load(sys.stdin), image.with_suffix(".mnt"), image.with_suffix(".cut")
    root.mkdir()
    _mount(kind, image, root)
    for name, text in request["before"].items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text(text)
    _run("umount", str(root))
    _mount(kind, image, root)  # a transaction of its own
    _python(request["program"], root)
    _run("cp", "--sparse=always", str(image), str(cut))
    _run("umount", str(root))  # before its copy is mounted, which has the same identity
    _mount(kind, cut, root)
    print(_python(LISTS, root))
    _run("umount", str(root))


def _mount(kind: Kind, image: Path, root: Path) -> None:
    _run("mount", "-t", kind, "-o", FILE_SYSTEMS[kind].options, str(image), str(root))


def _python(program: str, root: Path) -> str:
    words = [sys.executable, "-ISB", "-c", program, str(root)]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.PIPE)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))  # type: ignore[arg-type]
