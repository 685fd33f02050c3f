"""A kind of candidate: each is one class in `conformance/candidates/kinds/`; its node is in `conformance/nodes/KIND_node.py`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from conformance.candidates.availability import Availability, installed_availability
from conformance.candidates.fields import Address, CommonFields, KindFields, ListenerName
from conformance.candidates.step_demands import commands_needed
from conformance.registry import Registry
from conformance.scenarios.document import Cell

DISK = "disk"
"""What only some kinds have, beside what clocks need: a disk of its own that may fail."""

NODE_COMMANDS = ("inspect", "redirect-messages", "resubmit")
"""What a node of the contract may be asked; each prints one JSON object."""

SERVER_COMMANDS = ("start", "stop", "kill", "wipe", "pause", "resume", "reload", "flush", "list-queue", "version")
"""What the life of a server may need a command of its own for, where a signal does not do."""


class Kind:
    """What is true of every candidate of a kind. A class below declares one by its `name`."""

    name: ClassVar[str]
    needs: ClassVar[str]
    """The field of the description that it cannot do without."""
    fields: ClassVar[type[KindFields]] = KindFields
    """The fields that no other kind has."""
    features: ClassVar[frozenset[str]] = frozenset()
    builtin_commands: ClassVar[frozenset[str]] = frozenset((*NODE_COMMANDS, *SERVER_COMMANDS))
    """What the harness can do to a node without a command of the description; a step that needs more is not applicable."""
    word: ClassVar[str] = ""
    """How a candidate without a description is said on the command line: `docker:IMAGE`; `described` reads it."""
    sees_host_files: ClassVar[bool] = True
    """Whether its commands see the files of this machine."""
    parallel_claims: ClassVar[int] = 1
    """How many of its claims are tried at a time: programs mostly wait; time that jumps has one cell, a server one part."""

    def __init_subclass__(cls) -> None:
        KINDS.add(cls.name, cls())

    def parse_word(self, what: str, name: str) -> dict[str, Any]:
        """Return the description that a word names, of `what` stands behind the colon. Raises ValueError for none."""
        raise ValueError(what)

    def check(self, candidate: CommonFields) -> None:
        """Hold the fields against each other. Raises ValueError, beginning with a field."""

    def listener_names(self, candidate: CommonFields) -> tuple[ListenerName, ...]:
        """Return the doors that it opens."""
        return candidate.listeners

    def is_configured_here(self, candidate: CommonFields) -> bool:
        """Whether it gets the harness's configuration."""
        return True

    def external_addresses(self, candidate: CommonFields) -> Mapping[str, Address]:
        """Return every address that is none of the harness's choosing, by the field that names it."""
        return {}

    def check_availability(self, candidate: CommonFields) -> Availability:
        """Return where its programs are, or what is missing to run it."""
        return installed_availability(candidate)

    def unsupported_reasons(
        self, cell: Cell, server: str, plays: Callable[[str], CommonFields], scale: float
    ) -> Iterator[str]:
        """Yield why it cannot play the part of a server in a cell; `plays` says who plays which, `scale` divides the run's times."""
        has = self.builtin_commands.union(plays(server).commands)
        for step in cell.all_steps:
            for command in commands_needed(step, server):
                if command not in has:
                    yield f"its description has no command {command!r}, which the step {step.verb!r} needs"


KINDS: Registry[Kind] = Registry("kind of candidate")
"""All kinds by name; `conformance.candidates.description` loads them."""


def kinds_with_feature(means: str) -> list[str]:
    """Return the kinds that have this."""
    return [name for name, kind in KINDS.items() if means in kind.features]
