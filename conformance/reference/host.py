"""What the components of one node share: configuration, clock, storage, random numbers, log, tasks, and each other.

A component is one function of the server as an object, such as `delivery`. components.py makes the components and sets them on
the `Host`.
"""

import logging
import random
from typing import TYPE_CHECKING

from conformance.reference.config import NodeConfiguration, Transport
from conformance.reference.storage.database import Database
from conformance.reference.timers import Alarms, Clock, Tasks

if TYPE_CHECKING:
    from conformance.reference.duplicates import DuplicateDetection
    from conformance.reference.journal import Journaling
    from conformance.reference.queue.delivery import Completion, Delivery, Redirection
    from conformance.reference.queue.mailbox_store import MailboxStore
    from conformance.reference.queue.outbound import Outbound
    from conformance.reference.receive.acceptance import Acceptance
    from conformance.reference.receive.authentication import Rights
    from conformance.reference.receive.verbs import ShadowVerbs
    from conformance.reference.reports import Reports
    from conformance.reference.routing.bifurcation import Routing
    from conformance.reference.safety_net import SafetyNet
    from conformance.reference.shadow.choice import ShadowServerChoice
    from conformance.reference.shadow.creation import Redundancy, ShadowCreation
    from conformance.reference.shadow.discard import DiscardStatus
    from conformance.reference.shadow.manager import ShadowRedundancyManager
    from conformance.reference.shadow.shadow_queues import Promotion, ShadowKeeping, ShadowQueues
    from conformance.reference.storage.delivered import Delivered
    from conformance.reference.storage.discards import Discards
    from conformance.reference.storage.identity import Identity
    from conformance.reference.storage.messages import Messages
    from conformance.reference.storage.shadows import Shadows


TIMER_TOLERANCE = 0.001
"""How early a timer may fire, seconds."""


class Host:
    """The shared services of one node, and its components; `conformance.reference.components.wire_components` sets the latter.

    A reload replaces `config` as a whole: read it anew each time, and keep no part of it. `db` is the queue database;
    `tasks` and `alarms` have the node's background tasks and timers, which end with it.
    """

    # storage
    identity: "Identity"
    messages: "Messages"
    shadows: "Shadows"
    discards: "Discards"
    delivered: "Delivered"
    # receiving
    rights: "Rights"
    verbs: "type[ShadowVerbs]"
    acceptance: "Acceptance"
    # shadow redundancy
    choice: "ShadowServerChoice"
    creation: "ShadowCreation"
    redundancy: "Redundancy"
    keeping: "ShadowKeeping"
    shadow_queues: "ShadowQueues"
    discard_status: "DiscardStatus"
    manager: "ShadowRedundancyManager"
    promotion: "Promotion"
    # sending
    routing: "Routing"
    outbound: "Outbound"
    duplicates: "DuplicateDetection"
    store: "MailboxStore"
    delivery: "Delivery"
    completion: "Completion"
    reports: "Reports"
    journaling: "Journaling"
    # after delivery
    safety_net: "SafetyNet"
    redirection: "Redirection"

    components: "tuple[Component, ...]" = ()

    def __init__(
        self, config: NodeConfiguration, clock: Clock, db: Database, tasks: Tasks, alarms: Alarms, log: logging.Logger
    ) -> None:
        self.config = config
        self.clock = clock
        self.db = db
        self.tasks = tasks
        self.alarms = alarms
        self.log = log
        self.random = random.Random(f"{config.seed}:{config.name}")  # noqa: S311  # it spreads load and protects no secret

    @property
    def transport(self) -> Transport:
        """The transport parameters in force."""
        return self.config.transport

    @property
    def name(self) -> str:
        """The node's name, as in its EHLO."""
        return self.config.name

    def now(self) -> float:
        """Return the wall-clock time, POSIX seconds."""
        return self.clock.now()

    def latest_due(self) -> float:
        """Return the latest point in time (POSIX seconds) that has come: now, and a little more for timers that fire early."""
        return self.clock.now() + TIMER_TOLERANCE

    def is_due(self, due: float) -> bool:
        """Return whether a point in time (POSIX seconds) has come, or will within TIMER_TOLERANCE (`latest_due`)."""
        return due <= self.latest_due()


class Component:
    """A component of one node; `host` gives it the shared services and the other components."""

    def __init__(self, host: "Host") -> None:
        self.host = host

    def start(self) -> None:
        """Resume the work that is in the database; the node calls this once all components exist and the listeners are open.

        Does nothing here, for subclasses to override.
        """

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Adapt to `host.config`, which has just replaced `before`; the node calls this at each reload. Does nothing here."""
