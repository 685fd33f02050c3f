"""Every plain verb of the scenario language and what does it."""

from collections.abc import Mapping
from typing import Any

from conformance.run.steps import breaking, breaking_disks, nodes, sending, talking, timing
from conformance.scenarios import steps

HANDLERS: Mapping[type[steps.Action], Any] = {
    steps.Send: sending.send,
    steps.Submit: sending.send,
    steps.Resend: sending.resend,
    steps.Await: timing.await_sends,
    steps.Talk: talking.talk,
    steps.Advance: timing.advance,
    steps.Fault: breaking.fault,
    steps.Partition: breaking.partition,
    steps.Heal: breaking.heal,
    steps.Answer: breaking.answer,
    steps.Kill: nodes.node_action,
    steps.PowerCut: nodes.node_action,
    steps.Disk: breaking_disks.disk,
    steps.Stop: nodes.node_action,
    steps.Start: nodes.node_action,
    steps.Wipe: nodes.node_action,
    steps.Pause: nodes.node_action,
    steps.Resume: nodes.node_action,
    steps.Configure: nodes.configure,
    steps.Activate: nodes.activate,
    steps.Redirect: nodes.redirect,
    steps.Resubmit: nodes.resubmit,
    steps.Inspect: nodes.inspect,
}
"""Step model -> handler; a test holds it against `conformance.scenarios.steps.ACTIONS`."""
