"""What the steps of a cell ask of servers: which commands, and mail to whom."""

import re
from collections.abc import Iterable, Iterator

from conformance.scenarios.steps.blocks import Step
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    NodeAction,
    Pause,
    Redirect,
    Resubmit,
    Resume,
    Start,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Send
from conformance.scenarios.steps.talking import Talk

_COMMANDS: dict[type, tuple[str, ...]] = {
    Kill: ("kill", "start"), Stop: ("stop", "start"), Start: ("start",), Wipe: ("wipe", "start"), Pause: ("pause",),
    Resume: ("resume",), Configure: ("reload",), Activate: ("reload",), Inspect: ("inspect",),
    Redirect: ("redirect-messages",), Resubmit: ("resubmit",),
}  # fmt: skip
"""The commands that a step needs, of the servers that it acts on."""

_RECIPIENT = re.compile(r"RCPT TO:<([^>]*)>", re.IGNORECASE)


def commands_needed(step: Step, server: str) -> tuple[str, ...]:
    """Return the commands that a step needs of a server."""
    action = step.action
    match action:
        case NodeAction(node=names) | Configure(node=names) | Inspect(node=names):
            concerned = server in names or "all" in names
        case Redirect(sender=name) | Resubmit(on=name):
            concerned = name == server
        case _:
            concerned = isinstance(action, Activate)
    return _COMMANDS.get(type(action), ()) if concerned else ()


def recipients(steps: Iterable[Step]) -> Iterator[str]:
    """Yield every address that messages of these steps are sent to."""
    for step in steps:
        match step.action:
            case Send(to=addresses):
                yield from addresses
            case Talk(lines=lines):
                yield from (address for line in lines for address in _RECIPIENT.findall(line.say or ""))
