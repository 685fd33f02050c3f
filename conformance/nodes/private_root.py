"""A private root: what was installed for one server, laid over the system's root, seen by that server alone.

Run as a program by the guard, as the first process of a new PID namespace: `python private_root.py LAYER KEEP NAME --
COMMAND...`. LAYER is the directory to lay over `/`; what is written goes to memory and is gone with the server, but for
the directory KEEP, which is the real one. NAME is the host's name in there. It stays as the namespace's init: it hands
SIGTERM and SIGHUP on to the command, reaps, and leaves with the command's exit code; with it everything in the namespace
dies. Only the standard library is imported: it must start at once.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

_RESOLVER = {
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n",
}
"""Nothing in there asks the outside world for a name."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces that the flags name. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount. Raises OSError naming the target."""
    words = (source.encode(), str(target).encode(), kind.encode())
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def enter(layer: Path, keep: Path, name: str) -> None:
    """Make the private root and enter it; the caller has a mount namespace of its own."""
    mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    work = Path("/mnt")
    mount("tmpfs", work, "tmpfs", _MS_NOSUID, "mode=755")
    root = work / "root"
    for made in ("upper", "work", "root"):
        (work / made).mkdir()
    mount("overlay", root, "overlay", 0, f"lowerdir={layer}:/,upperdir={work}/upper,workdir={work}/work")
    for shared in ("dev", "sys"):
        mount(f"/{shared}", root / shared, "", _MS_BIND | _MS_REC)
    mount("proc", root / "proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for own in ("tmp", "run"):
        mount("tmpfs", root / own, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777" if own == "tmp" else "mode=755")
    inside = root / keep.relative_to("/")
    inside.mkdir(parents=True, exist_ok=True)
    mount(str(keep), inside, "", _MS_BIND | _MS_REC)
    hosts = f"127.0.0.1 {name}.test {name} localhost\n"
    for file, text in {**_RESOLVER, "etc/hosts": hosts, "etc/hostname": f"{name}\n"}.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text, encoding="ascii")
    os.chroot(root)
    os.chdir("/")


def serve(argv: list[str]) -> int:
    """Run the command as init does: hand signals on, reap everything, return the command's exit code."""
    command = os.fork()
    if command == 0:
        os.setsid()
        try:
            os.execvp(argv[0], argv)  # noqa: S606  # the description's own command
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(command, number))
    while True:
        pid, status = os.wait()
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(argv: list[str]) -> int:
    """Enter the private root and serve the command in it."""
    layer, keep, name, dashes, *command = argv
    if dashes != "--" or not command:
        raise SystemExit("usage: private_root.py LAYER KEEP NAME -- COMMAND...")
    enter(Path(layer), Path(keep), name)
    return serve(command)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
