"""The guard: a small process between the harness and a node's process tree, so that nothing outlives a run.

Run as a program: `python guard.py COMMAND...`. The harness holds the other end of its standard input and writes one
octet to have the tree signalled: `T` SIGTERM to the command, `H` SIGHUP to it, `K` SIGKILL to the whole tree, `S`/`C`
SIGSTOP/SIGCONT to the whole tree. When the harness is gone, however it went, the input ends and the tree is killed.
As the tree's subreaper the guard also finds what has daemonised itself. It leaves with the command's exit code (128 +
n after signal n). Only the standard library is imported: it must start at once.
"""

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER = 36
_TO_COMMAND = {b"T": signal.SIGTERM, b"H": signal.SIGHUP}
_TO_TREE = {b"S": signal.SIGSTOP, b"C": signal.SIGCONT}


def descendants(pid: int) -> Iterator[int]:
    """Yield the process ids below `pid`, parents first."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:  # noqa: PTH123  # no pathlib: start fast
            below = [int(child) for child in children.read().split()]
    except OSError:
        return
    for child in below:
        yield child
        yield from descendants(child)


def signal_tree(number: signal.Signals) -> None:
    """Signal everything below the guard; what has gone meanwhile needs none."""
    for pid in list(descendants(os.getpid())):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_tree() -> None:
    """Kill everything below the guard, and what it forks while being killed, and reap it all."""
    while list(descendants(os.getpid())):
        signal_tree(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main(argv: list[str]) -> int:
    """Guard the command until it ends or the harness is gone; return the exit code."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is the harness's to handle; it tells us by the input
    command = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True)  # noqa: S603
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ, "input")
        selector.register(os.pidfd_open(command.pid), selectors.EVENT_READ, "ended")
        while True:
            ready = {key.data for key, _ in selector.select()}
            if "ended" in ready:
                code = command.wait()
                kill_tree()
                return code if code >= 0 else 128 - code
            word = os.read(0, 1)
            if word in _TO_COMMAND:
                command.send_signal(_TO_COMMAND[word])
            elif word in _TO_TREE:
                signal_tree(_TO_TREE[word])
            else:
                kill_tree()
                return 128 + signal.SIGKILL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
