"""What the parts of one node share: configuration, clock, storage, seeded randomness, log, tasks, and each other."""

import logging
import random
from typing import TYPE_CHECKING

from conformance.reference.clock import Clock
from conformance.reference.config import NodeConfiguration, Transport
from conformance.reference.storage.database import Database
from conformance.reference.timers import Alarms, Tasks

if TYPE_CHECKING:
    from conformance.reference.duplicates import DuplicateDetection
    from conformance.reference.journal import Journaling
    from conformance.reference.part import Part
    from conformance.reference.queue.completion import Completion
    from conformance.reference.queue.delivery import Delivery
    from conformance.reference.queue.mailbox_store import MailboxStore
    from conformance.reference.queue.outbound import Outbound
    from conformance.reference.receive.acceptance import Acceptance
    from conformance.reference.receive.rights import Rights
    from conformance.reference.receive.verbs import ShadowVerbs
    from conformance.reference.redirection import Redirection
    from conformance.reference.reports import Reports
    from conformance.reference.routing.router import Routing
    from conformance.reference.safety_net import SafetyNet
    from conformance.reference.shadow.choice import ShadowServerChoice
    from conformance.reference.shadow.creation import ShadowCreation
    from conformance.reference.shadow.discard import DiscardStatus
    from conformance.reference.shadow.keeping import ShadowKeeping
    from conformance.reference.shadow.manager import ShadowRedundancyManager
    from conformance.reference.shadow.promotion import Promotion
    from conformance.reference.shadow.queues import ShadowQueues
    from conformance.reference.shadow.redundancy import Redundancy
    from conformance.reference.storage.delivered import Delivered
    from conformance.reference.storage.discards import Discards
    from conformance.reference.storage.identity import Identity
    from conformance.reference.storage.messages import Messages
    from conformance.reference.storage.shadows import Shadows


class Host:
    """One node's shared ground; `conformance.reference.parts.furnish` puts the parts in.

    `config` is replaced as a whole on reload; never keep a piece of it.
    """

    # storage
    identity: "Identity"
    messages: "Messages"
    shadows: "Shadows"
    discards: "Discards"
    delivered: "Delivered"
    # the way in
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
    # the way out
    routing: "Routing"
    outbound: "Outbound"
    duplicates: "DuplicateDetection"
    store: "MailboxStore"
    delivery: "Delivery"
    completion: "Completion"
    reports: "Reports"
    journaling: "Journaling"
    # afterwards
    safety_net: "SafetyNet"
    redirection: "Redirection"

    parts: "tuple[Part, ...]" = ()

    def __init__(
        self, config: NodeConfiguration, clock: Clock, db: Database, tasks: Tasks, alarms: Alarms, log: logging.Logger
    ) -> None:
        self.config = config
        self.clock = clock
        self.db = db
        self.tasks = tasks
        self.alarms = alarms
        self.log = log
        self.random = random.Random(f"{config.seed}:{config.name}")  # noqa: S311  # spreads load, keeps no secret

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

    def reached(self, due: float) -> bool:
        """Return whether a due time has come; a timer may ring a rounding error before its time."""
        return due <= self.clock.now() + 0.001
