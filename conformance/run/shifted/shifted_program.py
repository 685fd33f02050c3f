"""The shifted clock of one node: its shared page, its copy of the shim, the words that preload it, and its processes.

The event loop (`conformance.run.shifted.loop`) makes a `ShiftedProgram` for each node and asks it before each jump; the node
calls the `on_...` methods when it starts and ends. A process is *awake* while it has something to do: time does not jump
then.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from conformance.run.shifted.process_tree import ProcessTree
from conformance.run.shifted.shared_page import SharedPage
from conformance.run.shifted.shim_library import check_program


class ShiftedProgram:
    """Shifts the clock of one node's processes; the node calls its `on_...` methods.

    Time does not jump while the node starts or ends, since the shared page does not show all that it does then. The
    *guard* is the harness's process above the node's own; as a child process of the loop it keeps time from jumping
    until `on_ready`. The shim is the C library that is preloaded into every process of the node. `tree` looks at those
    processes, `page` is the memory shared with them.
    """

    def __init__(
        self,
        directory: Path,
        library: Path,
        sleep_threshold: float,
        *,
        hold_time: Callable[[str], contextlib.AbstractContextManager[None]],
        stop_holding_for: Callable[[int], None],
    ) -> None:
        """`directory` gets the page and a copy of `library`, the shim; the node must see it at the same path.

        `sleep_threshold` is that of `ProcessTree`; the other two are methods of the loop: `hold_time(reason)` keeps time
        from jumping, `stop_holding_for(pid)` ends that for a child process.
        """
        self.name = directory.parent.name
        """The name of the node."""
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        self._library = directory / library.name
        shutil.copyfile(library, self._library)
        self._library.chmod(0o755)
        self.page = SharedPage(directory / "page")
        self.tree = ProcessTree(self.page, self._library, sleep_threshold)
        self._hold_time = hold_time
        self._stop_holding_for = stop_holding_for
        self._holds = contextlib.ExitStack()
        self._guard = 0
        self._unshifted_waits_reported = False

    def take_unshifted_waits(self) -> str:
        """Return a clause about what the node has asked for that cannot be shifted; "" if nothing, and after it was returned once."""
        sentence = "" if self._unshifted_waits_reported else self.tree.unshifted_waits
        self._unshifted_waits_reported = self._unshifted_waits_reported or bool(sentence)
        return sentence

    def command_prefix(self, program: str, environment: Mapping[str, str]) -> list[str]:
        """Return the words to put before a command of the node, which preload the shim beside what `environment` preloads.

        `program` is the command's first word, `environment` the variables that it gets. Raises CannotShift when the file of
        `program` shows that the shim would not reach it.
        """
        check_program(program)
        preloaded = ":".join(filter(None, [str(self._library), environment.get("LD_PRELOAD")]))
        return ["/usr/bin/env", f"LD_PRELOAD={preloaded}", f"CONFORMANCE_CLOCK={self.page.path}"]

    def on_started(self, guard: int) -> None:
        """Follow the processes below the node's guard, which has been started; the guard's own clock is not shifted."""
        self._guard = guard
        self.tree.follow(guard)

    def on_signal(self) -> None:
        """Note that the node's guard was sent a command, such as to signal the processes."""
        self.tree.note_guard_signalled()

    def on_ready(self) -> None:
        """Let time jump, as the node is ready. Raises CannotShift when the clock of one of its processes is not shifted.

        Blocks while its processes load the shim.
        """
        self.tree.check_shifted()
        self._stop_holding_for(self._guard)

    def on_ending(self) -> None:
        """Keep time from jumping until `on_ended`, as the node begins to end."""
        self._holds.enter_context(self._hold_time("a node ends"))

    def on_ended(self) -> None:
        """Stop following the processes, which have ended, and let time jump."""
        self.tree.stop_following()
        self._holds.close()

    @contextlib.contextmanager
    def follow_command(self, pid: int) -> Iterator[None]:
        """Let time jump in the context whenever a command of the node, the child process `pid` of the loop, only waits.

        Its processes are looked at like the node's own, and count as busy once it has ended, until the context is left.
        """
        with self.tree.following_command(pid):
            self._stop_holding_for(pid)
            yield

    def describe_awake(self) -> str:
        """Return the node and its processes that had something to do when they were last looked at; "" when there were none.

        Such a text is `mta1: process 812 (postgres)`.
        """
        names = ", ".join(f"process {pid} ({_program_name(pid)})" for pid in self.tree.awake)
        return f"{self.name}: {names}" if names else ""


def _program_name(pid: int) -> str:
    """Return the name of the program that a process runs; "gone" when the process has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "gone"
