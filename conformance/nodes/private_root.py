"""A private root: a file system that only one server sees, made of what was installed for it over the system's own.

Run as a program by the guard (for the commands `version` and `wipe` of a description by unshare), as the first process of a
new PID namespace: `python private_root.py LAYER KEEP NAME [--share DIRECTORY] [--preload LIBRARY] -- COMMAND...`. LAYER is
the directory to lay over `/` (an overlayfs for each of /etc, /usr, /var). What the server writes goes to memory and is lost
when it ends, except in the directory KEEP, which is the real one and is mounted at `/node` too. NAME is in `/etc/hosts`;
DIRECTORY becomes the node's data in place of its own; LIBRARY is loaded into every program, whatever its rights and
environment.

The guard is the harness's process above the server's processes (`guard`). This process stays as the namespace's init:
it passes SIGTERM and SIGHUP on to the command, reaps all processes, and exits with the command's exit code. Then the
kernel kills everything in the namespace. A command that ends after SIGTERM may leave processes to finish their work, such
as one that is amid a delivery: they get MAX_REST_S for that. It imports the standard library only, since it must start at
once.
"""

import ctypes
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

MAX_REST_S = 1.0
"""Seconds for which the processes that a stopped command leaves may go on."""

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

_PR_SET_PDEATHSIG = 1

_NAME_SERVICE_FILES = {
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n",
}
"""With these files no program in the root asks a name server, except one on the loopback interface."""

NODE = Path("/node")
"""Where KEEP is mounted too: a short path, since that of a Unix socket has at most 108 octets."""

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str, flags: int = 0, options: str = "") -> None:
    """Call mount(2); `kind` is the type of file system. Raises OSError naming the target."""
    words = (source.encode(), str(target).encode(), kind.encode())
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def enter_root(layer: Path, keep: Path, name: str, preload: str = "", share: str = "") -> None:
    """Make the private root in this process's own mount namespace, and chroot to it. Raises OSError.

    `layer` is laid over `/`, `keep` stays the real directory and is at `/node` too, and `name` stands in `/etc/hosts`.
    `preload` is the path of a library that all programs load; '' for none. `share` is a directory that is the node's
    data in place of its own; '' for none.
    """
    mount("none", Path("/"), "", _MS_REC | _MS_PRIVATE)
    work = Path("/mnt")
    mount("tmpfs", work, "tmpfs", _MS_NOSUID, "mode=755")
    root = work / "root"
    root.mkdir()
    # An overlay for each directory: the lower layers of one must not contain each other, and `layer` may lie in /.
    for top in ("etc", "usr", "var"):
        folders = {purpose: work / purpose / top for purpose in ("upper", "work", "root")}
        for folder in folders.values():
            folder.mkdir(parents=True)
        (layer / top).mkdir(exist_ok=True)
        options = f"lowerdir={layer / top}:/{top},upperdir={folders['upper']},workdir={folders['work']}"
        mount("overlay", folders["root"], "overlay", 0, options)
    for link in Path("/").iterdir():
        if link.is_symlink():  # /bin, /lib, /sbin point into /usr
            (root / link.name).symlink_to(link.readlink())
    for empty in ("dev", "sys", "proc", "tmp", "run"):
        (root / empty).mkdir()
    mount("/sys", root / "sys", "", _MS_BIND | _MS_REC)
    for device in ("null", "zero", "full", "random", "urandom", "tty"):
        (root / "dev" / device).touch()
        mount(f"/dev/{device}", root / "dev" / device, "", _MS_BIND)
    for stream, to in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (root / "dev" / stream).symlink_to(f"/proc/self/fd{to}")
    mount("proc", root / "proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    (root / "tmp").chmod(0o1777)
    for target in (keep, NODE):
        inside = root / target.relative_to("/")
        inside.mkdir(parents=True, exist_ok=True)
        mount(str(keep), inside, "", _MS_BIND | _MS_REC)
    for target in (keep, NODE) if share else ():
        mount(share, root / target.relative_to("/") / "data", "", _MS_BIND)
    hosts = f"127.0.0.1 {name}.test {name} localhost\n"
    files = {**_NAME_SERVICE_FILES, "etc/hosts": hosts, "etc/hostname": f"{name}\n"}
    if preload:
        files["etc/ld.so.preload"] = f"{preload}\n"
    for file, text in files.items():
        (root / file).unlink(missing_ok=True)
        (root / file).write_text(text, encoding="ascii")
    os.chroot(root)
    os.chdir("/")


def run_as_init(argv: list[str]) -> int:
    """Run a command as the init of a PID namespace: pass signals on, reap all processes, and return its exit code.

    The code is 128 + n after signal n, as a shell reports it, and 127 for a command that cannot be started. Messages to
    syslog are written to stderr, since some servers have no other log. Blocks until the command ends, and after SIGTERM
    until every process has ended, for MAX_REST_S more at most.
    """
    syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    syslog.bind("/dev/log")
    syslog.setblocking(False)
    os.chmod("/dev/log", 0o666)  # noqa: S103, PTH101  # every user may log
    # The kernel drops a signal to an init that has no handler for it yet.
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
    asked_to_end = False

    def pass_on(number: int, frame: object) -> None:
        """Send the command a signal that this process got, unless it has ended: then its id may be another's."""
        nonlocal asked_to_end
        asked_to_end = asked_to_end or number == signal.SIGTERM
        if code is None:
            os.kill(command, number)

    code: int | None = None
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
    deadline: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(waking, selectors.EVENT_READ)
        selector.register(syslog, selectors.EVENT_READ)
        while True:
            ended, any_left = _reap(command)
            if ended is not None:
                code, deadline = ended, time.monotonic() + (MAX_REST_S if asked_to_end else 0)
            if deadline is not None and (not any_left or time.monotonic() >= deadline):
                break
            for key, _ in selector.select(None if deadline is None else deadline - time.monotonic()):
                if key.fileobj is syslog:
                    _print_syslog(syslog)
                else:
                    os.read(waking, 512)
    _print_syslog(syslog)
    assert code is not None
    return code if code >= 0 else 128 - code


def _print_syslog(syslog: socket.socket) -> None:
    """Write all messages that wait at the syslog socket to stderr."""
    while True:
        try:
            os.write(2, syslog.recv(65536).rstrip(b"\0\n") + b"\n")
        except BlockingIOError:
            return


def _reap(command: int) -> tuple[int | None, bool]:
    """Reap every process that has ended; does not block. `command` is the process id of the command.

    Return the command's exit code (-n after signal n) if it is among them, else None, and whether any process is left.
    """
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == command:
            code = os.waitstatus_to_exitcode(status)


def main(argv: list[str]) -> int:
    """Parse the arguments, enter the private root, and run the command in it; return its exit code.

    Raises SystemExit with the usage when arguments are missing or something else than `-- COMMAND` follows the options, and
    OSError when the root cannot be made.
    """
    usage = "usage: private_root.py LAYER KEEP NAME [--share DIRECTORY] [--preload LIBRARY] -- COMMAND..."
    if len(argv) < 3:
        raise SystemExit(usage)
    layer, keep, name, *rest = argv
    share = rest[1] if rest[:1] == ["--share"] else ""
    rest = rest[2:] if share else rest
    preload = rest[1] if rest[:1] == ["--preload"] else ""
    rest = rest[2:] if preload else rest
    if rest[:1] != ["--"] or len(rest) == 1:
        raise SystemExit(usage)
    # The kernel kills this process, and with it the namespace, when the guard ends.
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    enter_root(Path(layer), Path(keep), name, preload, share)
    return run_as_init(rest[1:])


def _check(result: int, what: str) -> None:
    """Raise OSError, with errno and `what`, when a function of the C library has returned another value than 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
