"""What the clock of one node needs: its page, its copy of the shim, the words that preload it, and its processes."""

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from conformance.run.shifted.process_tree import ProcessTree
from conformance.run.shifted.shared_page import SharedPage
from conformance.run.shifted.shim_library import check_program


class ShiftedProgram:
    """Moves the clock of one node's processes. `directory` is seen by them too, whatever root they have.

    Time stands (passes as it does) while the node begins and ends: what it does then is not seen from its page alone.
    """

    def __init__(
        self,
        directory: Path,
        library: Path,
        moment: float,
        *,
        hold_time: Callable[[str], contextlib.AbstractContextManager[None]],
        release: Callable[[int], None],
    ) -> None:
        self.name = directory.parent.name
        """The node's."""
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        self._library = directory / library.name
        shutil.copyfile(library, self._library)
        self._library.chmod(0o755)
        self.page = SharedPage(directory / "page")
        self.tree = ProcessTree(self.page, self._library, moment)
        self._hold_time = hold_time
        self._release = release
        self._standing = contextlib.ExitStack()
        self._guard = 0
        self._unmoved_reported = False

    @property
    def unmoved(self) -> str:
        """What the node has asked for that cannot be moved, once: then it is told. '' when there is nothing to tell."""
        words = "" if self._unmoved_reported else self.tree.unmoved
        self._unmoved_reported = self._unmoved_reported or bool(words)
        return words

    def command_prefix(self, program: str, environment: Mapping[str, str]) -> list[str]:
        """Return the words before a command that move its clock, beside what its environment preloads already.

        Raises CannotShift when it can be told before its start that the program's clock cannot be moved.
        """
        check_program(program)
        preloaded = ":".join(filter(None, [str(self._library), environment.get("LD_PRELOAD")]))
        return ["/usr/bin/env", f"LD_PRELOAD={preloaded}", f"CONFORMANCE_CLOCK={self.page.path}"]

    def on_started(self, guard: int) -> None:
        """Say that the node's guard has started, whose own clock is not moved; what is below it is followed from now on."""
        self._guard = guard
        self.tree.follow(guard)

    def on_signal(self) -> None:
        """Say that the node's guard was told something, which it is about to do."""
        self.tree.note_guard_signalled()

    def awake(self) -> str:
        """Name the node's processes that had something to do at the last look; '' when there was none."""
        names = ", ".join(f"process {pid} ({_name(pid)})" for pid in self.tree.awake)
        return f"{self.name}: {names}" if names else ""

    def on_ready(self) -> None:
        """Say that the node is ready: time may jump. Raises CannotShift when a process's clock is not moved."""
        self.tree.check()
        self._release(self._guard)

    def on_ending(self) -> None:
        """Say that the node is being ended."""
        self._standing.enter_context(self._hold_time("a node ends"))

    def on_ended(self) -> None:
        """Say that the node was ended."""
        self.tree.leave()
        self._standing.close()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has gone meanwhile
        return "gone"
