"""The holder of a loop disk: a process that mounts it in a mount namespace of its own, and carries out orders on it.

Run as a program, as root, by `unshare -m`: `python holder.py IMAGE DIRECTORY`. It prints `ready`, then reads one order a line
and answers each with a line that begins with `ok` or `failed`. `full` fills the file system to its last block, `room`
deletes the filling if there is one, `read-only` makes the file system fail as after an error of the device, `unmount` unmounts it. When
its input ends, the holder exits. The mount exists in this namespace only, and the loop device goes with the mount: when
the holder and the nodes in the namespace have ended, in whatever way, the kernel removes both. Only the standard library
is imported.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

_FILLING = ".filling"
_OPTIONS = "loop,commit=300,noatime,errors=remount-ro"
"""With `commit=300` only a sync commits the journal within five minutes (ext4(5))."""


def main(argv: list[str]) -> int:
    """Mount the image, and carry out orders until the input ends; return 0. Raises CalledProcessError if the mount fails.

    An order that fails is answered with `failed` and the reason, and the next one is read.
    """
    image, directory = Path(argv[0]), Path(argv[1])
    status = directory.stat()
    _run("mount", "-o", _OPTIONS, str(image), str(directory))
    # The root of the new file system gets the owner and mode of the directory that it hides.
    os.chown(directory, status.st_uid, status.st_gid)
    directory.chmod(status.st_mode)
    print("ready", flush=True)  # noqa: T201  # this is how it answers
    for line in sys.stdin:
        try:
            answer = _execute(line.strip(), directory)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            answer = f"failed {error}"
        print(answer, flush=True)  # noqa: T201
    return 0


def _execute(order: str, directory: Path) -> str:
    """Carry out an order and return the answer. Raises OSError, CalledProcessError, or ValueError for an unknown order."""
    match order:
        case "full":
            return f"ok {_fill(directory / _FILLING)}"
        case "room":
            (directory / _FILLING).unlink(missing_ok=True)
            return "ok"
        case "read-only":
            _run("mount", "-o", "remount,abort", str(directory))
            return f"ok {_probe(directory / '.probe')}"
        case "unmount":
            _run("umount", str(directory))
            return "ok"
    raise ValueError(f"no order {order!r}")


def _fill(path: Path) -> str:
    """Write to a file until there is no room for another octet; return the text of that error (ENOSPC)."""
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
    """Try to make a file; return the text of the error. Raises ValueError when there is none."""
    try:
        path.touch()
    except OSError as error:
        return os.strerror(error.errno or 0)
    path.unlink()
    raise ValueError("the file system still takes files")


def _run(*argv: str) -> None:
    """Run a program to its end. Raises CalledProcessError when its exit code is not 0."""
    subprocess.run(argv, check=True, capture_output=True)  # noqa: S603  # mount, on our own image


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
