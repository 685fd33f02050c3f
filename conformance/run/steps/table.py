"""Every plain verb of the scenario language and what does it."""

from collections.abc import Mapping
from typing import Any

from conformance.run.steps import breaking, breaking_disks, nodes, sending, talking, timing
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

HANDLERS: Mapping[type[Action], Any] = {
    Send: sending.send,
    Submit: sending.send,
    Resend: sending.resend,
    Await: timing.await_sends,
    Talk: talking.talk,
    Advance: timing.advance,
    Fault: breaking.fault,
    Partition: breaking.partition,
    Heal: breaking.heal,
    Answer: breaking.answer,
    Kill: nodes.node_action,
    PowerCut: nodes.node_action,
    Disk: breaking_disks.disk,
    Stop: nodes.node_action,
    Start: nodes.node_action,
    Wipe: nodes.node_action,
    Pause: nodes.node_action,
    Resume: nodes.node_action,
    Configure: nodes.configure,
    Activate: nodes.activate,
    Redirect: nodes.redirect,
    Resubmit: nodes.resubmit,
    Inspect: nodes.inspect,
}
"""Step model -> handler; a test holds it against `conformance.scenarios.steps.table.ACTIONS`."""
