"""The holder of a loop disk: mounts it in a mount namespace of its own, and does to it what it is told.

Run as a program, as root, by `unshare -m`: `python holder.py IMAGE DIRECTORY`. It says `ready`, then obeys one word a line
and answers each with a line that begins with `ok` or `failed`: `full` fills the file system to its last block, `room`
takes the filling away, `read-only` has the file system fail as after an error of the device. When its input ends, it
leaves. The mount is nobody's but this namespace's, and the loop device frees itself with the mount: when the holder
and the nodes that entered the namespace are gone, however they went, so are both. Only the standard library is imported.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

_FILLING = ".filling"
_OPTIONS = "loop,commit=300,noatime,errors=remount-ro"
"""The journal is committed by nothing but a sync for five minutes (ext4(5))."""


def main(argv: list[str]) -> int:
    """Mount, and obey until the input ends."""
    image, directory = Path(argv[0]), Path(argv[1])
    below = directory.stat()
    _run("mount", "-o", _OPTIONS, str(image), str(directory))
    os.chown(directory, below.st_uid, below.st_gid)
    directory.chmod(below.st_mode)
    print("ready", flush=True)  # noqa: T201  # this is how it answers
    for line in sys.stdin:
        try:
            answer = _obey(line.strip(), directory)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            answer = f"failed {error}"
        print(answer, flush=True)  # noqa: T201
    return 0


def _obey(word: str, directory: Path) -> str:
    match word:
        case "full":
            return f"ok {_fill(directory / _FILLING)}"
        case "room":
            (directory / _FILLING).unlink()
            return "ok"
        case "read-only":
            _run("mount", "-o", "remount,abort", str(directory))
            return f"ok {_probe(directory / '.probe')}"
        case "let-go":
            _run("umount", str(directory))
            return "ok"
    raise ValueError(f"no word {word!r}")


def _fill(path: Path) -> str:
    """Write until there is no room for one octet more; return the words of the error that says so."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for size in (1 << 20, 1 << 12, 1):
            while True:
                try:
                    os.write(handle, bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break
        os.fsync(handle)
    finally:
        os.close(handle)
    return os.strerror(errno.ENOSPC)


def _probe(path: Path) -> str:
    """Return the words of the error with which a new file is refused. Raises ValueError when it is not."""
    try:
        path.touch()
    except OSError as error:
        return os.strerror(error.errno or 0)
    path.unlink()
    raise ValueError("the file system still takes files")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)  # noqa: S603  # mount, on our own image


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
