"""A private root: what was installed for one server, laid over the system's root, seen by that server alone.

Run as a program by the guard, as the first process of a new PID namespace: `python private_root.py LAYER KEEP NAME
[--preload LIBRARY] -- COMMAND...`. LAYER is the directory to lay over `/`; what is written goes to memory and is gone
with the server, but for the directory KEEP, which is the real one, and is `/node` too. NAME is the host's name in there;
LIBRARY is loaded into every program in there, whatever its rights and its environment. It stays as the namespace's
init: it hands SIGTERM and SIGHUP on to the command, reaps, and leaves with the command's exit code; with it everything
in the namespace dies. Only the standard library is imported: it must start at once.
"""

import ctypes
import os
import selectors
import signal
import socket
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

_PR_SET_PDEATHSIG = 1

_RESOLVER = {
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n",
}
"""Nothing in there asks the outside world for a name."""

NODE = Path("/node")
"""Where the node's directory is seen in there too: a short path, since a socket's may have no more than 108 octets."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces that the flags name. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount. Raises OSError naming the target."""
    words = (source.encode(), str(target).encode(), kind.encode())
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def enter(layer: Path, keep: Path, name: str, preload: str = "") -> None:
    """Make the private root and enter it; the caller has a mount namespace of its own."""
    mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    work = Path("/mnt")
    mount("tmpfs", work, "tmpfs", _MS_NOSUID, "mode=755")
    root = work / "root"
    root.mkdir()
    for laid in (
        "etc",
        "usr",
        "var",
    ):  # one by one: a layer must not lie inside another, and the first may lie anywhere
        places = {what: work / what / laid for what in ("upper", "work", "root")}
        for place in places.values():
            place.mkdir(parents=True)
        (layer / laid).mkdir(exist_ok=True)
        layers = f"lowerdir={layer / laid}:/{laid},upperdir={places['upper']},workdir={places['work']}"
        mount("overlay", places["root"], "overlay", 0, layers)
    for link in Path("/").iterdir():
        if link.is_symlink():  # bin, lib, sbin: into usr
            (root / link.name).symlink_to(link.readlink())
    for made in ("dev", "sys", "proc", "tmp", "run"):
        (root / made).mkdir()
    mount("/sys", root / "sys", "", _MS_BIND | _MS_REC)
    for device in ("null", "zero", "full", "random", "urandom", "tty"):
        (root / "dev" / device).touch()
        mount(f"/dev/{device}", root / "dev" / device, "", _MS_BIND)
    for stream, to in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (root / "dev" / stream).symlink_to(f"/proc/self/fd{to}")
    mount("proc", root / "proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    (root / "tmp").chmod(0o1777)
    for place in (keep, NODE):
        inside = root / place.relative_to("/")
        inside.mkdir(parents=True, exist_ok=True)
        mount(str(keep), inside, "", _MS_BIND | _MS_REC)
    hosts = f"127.0.0.1 {name}.test {name} localhost\n"
    files = {**_RESOLVER, "etc/hosts": hosts, "etc/hostname": f"{name}\n"}
    if preload:
        files["etc/ld.so.preload"] = f"{preload}\n"
    for file, text in files.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text, encoding="ascii")
    os.chroot(root)
    os.chdir("/")


def serve(argv: list[str]) -> int:
    """Run the command as init does: hand signals on, reap everything, return the command's exit code.

    What is said to syslog is printed: some servers have no other log.
    """
    syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    syslog.bind("/dev/log")
    syslog.setblocking(False)
    os.chmod("/dev/log", 0o666)  # noqa: S103, PTH101  # everybody may speak to syslog
    # An init for which a signal comes before its handler is there never hears of it.
    handled = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    command = os.fork()
    if command == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        os.setsid()
        try:
            os.execvp(argv[0], argv)  # noqa: S606  # the description's own command
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127)

    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(command, number))
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
    with selectors.DefaultSelector() as selector:
        selector.register(waking, selectors.EVENT_READ)
        selector.register(syslog, selectors.EVENT_READ)
        while (code := _reap(command)) is None:
            for key, _ in selector.select():
                if key.fileobj is syslog:
                    _print(syslog)
                else:
                    os.read(waking, 512)
    _print(syslog)
    return code if code >= 0 else 128 - code


def _print(syslog: socket.socket) -> None:
    """Print what was said to syslog."""
    while True:
        try:
            os.write(2, syslog.recv(65536).rstrip(b"\0\n") + b"\n")
        except BlockingIOError:
            return


def _reap(command: int) -> int | None:
    """Reap everything that has ended; return the command's exit code when it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == command:
            return os.waitstatus_to_exitcode(status)
        if pid == 0:
            return None


def main(argv: list[str]) -> int:
    """Enter the private root and serve the command in it."""
    layer, keep, name, *rest = argv
    preload = rest[1] if rest[:1] == ["--preload"] else ""
    dashes, *command = rest[2:] if preload else rest
    if dashes != "--" or not command:
        raise SystemExit("usage: private_root.py LAYER KEEP NAME [--preload LIBRARY] -- COMMAND...")
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    enter(Path(layer), Path(keep), name, preload)
    return serve(command)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
