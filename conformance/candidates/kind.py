"""What all candidates of a kind have in common, and what the steps of a scenario ask of a server.

A kind is one way to run a server: in this process, as a program, in a container, or not at all because it runs already. Each
is declared by a subclass of `Kind` in `conformance/candidates/kinds/`; its node is in `conformance/nodes/KIND_node.py`, and the
two find each other by the kind's name. A *description* is the YAML file of a candidate; a *cell* is one scenario run with one
candidate for each server. A *word* such as `docker:IMAGE` names a candidate of a kind that has no description.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from conformance.candidates.availability import Availability, check_programs
from conformance.candidates.fields import Address, CommonFields, KindFields, ListenerName
from conformance.registry import Registry
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Step
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    KillOne,
    NodeAction,
    Pause,
    Redirect,
    Resubmit,
    Resume,
    Start,
    StartAnother,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.steps.talking import Talk

DISK = "disk"
"""A feature of kinds, in addition to those that clocks need: the node has a disk of its own that can be made to fail."""

ANOTHER = "start-another"
"""The builtin command of kinds of which a second process can be started on the queue of the first."""

NODE_COMMANDS = ("inspect", "redirect-messages", "resubmit")
"""The commands of the node contract; each prints one JSON object."""

SERVER_COMMANDS = ("start", "stop", "kill", "wipe", "pause", "resume", "reload", "flush", "list-queue", "version")
"""The commands with which a description can replace what the harness does itself, such as sending a signal."""


class Kind:
    """What all candidates of a kind have in common. A subclass registers itself under its `name`.

    The methods get a candidate, or several by `candidate_of`, since one object stands for the whole kind.
    """

    name: ClassVar[str]
    needs: ClassVar[str]
    """The field of the description that candidates of this kind must have."""
    fields: ClassVar[type[KindFields]] = KindFields
    """The model of the fields that no other kind has."""
    features: ClassVar[frozenset[str]] = frozenset()
    """What the harness can do with this kind and not with every kind: IN_PROCESS, MOVED_CLOCK, DISK."""
    builtin_commands: ClassVar[frozenset[str]] = frozenset((*NODE_COMMANDS, *SERVER_COMMANDS))
    """The commands that work without being in the description. A step that needs another one is not applicable."""
    word: ClassVar[str] = ""
    """How `--candidate` names a candidate of this kind that has no description: `docker:IMAGE`."""
    sees_host_files: ClassVar[bool] = True
    """Whether its commands can read the files of this machine."""
    parallel_claims: ClassVar[int] = 1
    """How many claims `conformance candidate check` tries at a time. Programs mostly wait; one server plays one part."""

    def __init_subclass__(cls) -> None:
        """Register an object of the subclass under its name."""
        KINDS.add(cls.name, cls())

    def parse_word(self, argument: str, name: str) -> dict[str, Any]:
        """Return the fields of the candidate that a word names, from its argument (what follows the colon).

        `name` is the argument with every character replaced that a name cannot have. Raises ValueError when the argument
        is malformed; by default for every argument, since only kinds with a `word` have such candidates.
        """
        raise ValueError(argument)

    def check(self, candidate: CommonFields) -> None:
        """Raise ValueError when fields contradict each other; by default never.

        The error's text begins with a field's name and a colon.
        """

    def listener_names(self, candidate: CommonFields) -> tuple[ListenerName, ...]:
        """Return the names of the listeners that the server opens."""
        return candidate.listeners

    def is_configured_here(self, candidate: CommonFields) -> bool:
        """Whether the harness configures the server before it starts."""
        return True

    def external_addresses(self, candidate: CommonFields) -> Mapping[str, Address]:
        """Return every address that the description states, by its key; by default none.

        `--allow-hosts` must permit hosts that are not this machine.
        """
        return {}

    def check_availability(self, candidate: CommonFields) -> Availability:
        """Return where the server's programs are, or in `missing` what is missing to run it here."""
        return check_programs(candidate)

    def unsupported_reasons(
        self, cell: Cell, server: str, candidate_of: Callable[[str], CommonFields], scale: float
    ) -> Iterator[str]:
        """Yield each reason why the candidate of a server cannot play it in a cell: by default, commands that its steps need.

        `candidate_of` returns the candidate of any server of the cell; `scale` is what the run divides times by.
        """
        supported = self.builtin_commands.union(candidate_of(server).commands)
        for step in cell.all_steps:
            for command in commands_needed(step, server):
                if command not in supported:
                    yield f"its description has no command {command!r}, which the step {step.verb!r} needs"


KINDS: Registry[Kind] = Registry("kind of candidate")
"""All kinds by name, filled when `conformance.candidates.description` imports the modules in `kinds/`."""


def kinds_with_feature(feature: str) -> list[str]:
    """Return the names of the kinds that have a feature."""
    return [name for name, kind in KINDS.items() if feature in kind.features]


_COMMANDS: dict[type, tuple[str, ...]] = {
    Kill: ("kill", "start"), Stop: ("stop", "start"), Start: ("start",), Wipe: ("wipe", "start"), Pause: ("pause",),
    Resume: ("resume",), Configure: ("reload",), Activate: ("reload",), Inspect: ("inspect",),
    Redirect: ("redirect-messages",), Resubmit: ("resubmit",), StartAnother: (ANOTHER,), KillOne: ("kill", "start"),
}  # fmt: skip
"""The commands that a step needs of each server that it acts on."""

_RECIPIENT = re.compile(r"RCPT TO:<([^>]*)>", re.IGNORECASE)


def commands_needed(step: Step, server: str) -> tuple[str, ...]:
    """Return the commands that a step needs of a server, as `kill` and `start` for Kill; none when it acts on another one."""
    action = step.action
    match action:
        case NodeAction(node=names) | Configure(node=names) | Inspect(node=names):
            acts_on_it = server in names or "all" in names
        case Redirect(sender=name) | Resubmit(on=name):
            acts_on_it = name == server
        case _:
            acts_on_it = isinstance(action, Activate)  # it moves a mailbox database, and reloads every server
    return _COMMANDS.get(type(action), ()) if acts_on_it else ()


def recipients(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the address of each recipient of the messages that these steps send. An address can come repeatedly."""
    for step in steps:
        match step.action:
            case Send(to=addresses):
                yield from addresses
            case Talk(lines=lines):
                yield from (address for line in lines for address in _RECIPIENT.findall(line.say or ""))
