"""Every plain verb of the scenario language and its model."""

from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Answer, Disk, Fault, Heal, Partition
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    Pause,
    PowerCut,
    Redirect,
    Resubmit,
    Resume,
    Start,
    Stop,
    Wipe,
)
from conformance.scenarios.steps.sending import Resend, Send, Submit
from conformance.scenarios.steps.talking import Talk
from conformance.scenarios.steps.timing import Advance, Await

ACTIONS: dict[str, type[Action]] = {
    "send": Send,
    "submit": Submit,
    "resend": Resend,
    "await": Await,
    "talk": Talk,
    "advance": Advance,
    "fault": Fault,
    "partition": Partition,
    "heal": Heal,
    "answer": Answer,
    "kill": Kill,
    "power-cut": PowerCut,
    "disk": Disk,
    "stop": Stop,
    "start": Start,
    "wipe": Wipe,
    "pause": Pause,
    "resume": Resume,
    "configure": Configure,
    "activate": Activate,
    "redirect": Redirect,
    "resubmit": Resubmit,
    "inspect": Inspect,
}
"""Verb -> model. `expect`, `parallel` and `repeat` hold other verbs: they are read by conformance.scenarios.script."""
