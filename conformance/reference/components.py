"""The parts that a node is made of: the composition root.

`ComponentClasses` names the class of each part, the right ones of Exchange 2013 and later by default. Another generation is
another set of parts (`ComponentSets`); a defect puts a wrong one in the place of one. No part asks which generation or defect it is in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from conformance.reference.config import Generation, NodeConfiguration
from conformance.reference.duplicates import DuplicateDetection
from conformance.reference.host import Host
from conformance.reference.hub2010.completion import HubCompletion, NoSafetyNet, NoShadowAtReceipt
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.outbound import HubOutbound, HubRouting
from conformance.reference.hub2010.shadow_queues import HubPromotion, HubShadowQueues
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.journal import Journaling
from conformance.reference.queue.delivery import Completion, Delivery, Redirection
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.queue.outbound import Outbound
from conformance.reference.receive.acceptance import Acceptance
from conformance.reference.receive.authentication import Rights
from conformance.reference.receive.session import LocalReceiver, Receiver
from conformance.reference.receive.verbs import ShadowVerbs
from conformance.reference.reports import Reports
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.creation import Redundancy, ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.shadow.shadow_queues import Promotion, ShadowKeeping, ShadowQueues
from conformance.reference.storage.database import Database
from conformance.reference.storage.delivered import Delivered
from conformance.reference.storage.discards import Discards
from conformance.reference.storage.identity import Identity
from conformance.reference.storage.messages import Messages
from conformance.reference.storage.shadows import Shadows


@dataclass(frozen=True, slots=True)
class ComponentClasses:
    """The classes that a node puts together, from the configuration to the way out: those of Exchange 2013 and later."""

    configuration: type[NodeConfiguration] = NodeConfiguration
    database: type[Database] = Database
    identity: type[Identity] = Identity
    messages: type[Messages] = Messages
    shadows: type[Shadows] = Shadows
    discards: type[Discards] = Discards
    delivered: type[Delivered] = Delivered
    rights: type[Rights] = Rights
    receiver: type[Receiver] = Receiver
    local_receiver: type[LocalReceiver] = LocalReceiver
    verbs: type[ShadowVerbs] = ShadowVerbs
    acceptance: type[Acceptance] = Acceptance
    choice: type[ShadowServerChoice] = ShadowServerChoice
    creation: type[ShadowCreation] = ShadowCreation
    redundancy: type[Redundancy] = Redundancy
    keeping: type[ShadowKeeping] = ShadowKeeping
    shadow_queues: type[ShadowQueues] = ShadowQueues
    discard_status: type[DiscardStatus] = DiscardStatus
    manager: type[ShadowRedundancyManager] = ShadowRedundancyManager
    promotion: type[Promotion] = Promotion
    routing: type[Routing] = Routing
    outbound: type[Outbound] = Outbound
    duplicates: type[DuplicateDetection] = DuplicateDetection
    store: type[MailboxStore] = MailboxStore
    delivery: type[Delivery] = Delivery
    completion: type[Completion] = Completion
    reports: type[Reports] = Reports
    journaling: type[Journaling] = Journaling
    safety_net: type[SafetyNet] = SafetyNet
    redirection: type[Redirection] = Redirection


EXCHANGE_2013 = ComponentClasses()
EXCHANGE_2010 = replace(
    EXCHANGE_2013,
    verbs=HubVerbs,
    acceptance=DelayedAcknowledgement,
    creation=NoShadowAtReceipt,
    shadow_queues=HubShadowQueues,
    manager=HubManager,
    promotion=HubPromotion,
    routing=HubRouting,
    outbound=HubOutbound,
    completion=HubCompletion,
    safety_net=NoSafetyNet,
)
"""The parts of a server of Exchange 2010."""

_OF_2010 = "ex2010."
_ITS_OWN = frozenset(
    name
    for name in ComponentClasses.__dataclass_fields__
    if getattr(EXCHANGE_2010, name) is not getattr(EXCHANGE_2013, name)
)
SLOTS = frozenset(ComponentClasses.__dataclass_fields__) | {_OF_2010 + name for name in _ITS_OWN}
"""Where a part can be put: `ex2010.verbs` in a server of Exchange 2010, `verbs` in those of 2013 and later, and what both have
in common in both."""


@dataclass(frozen=True, slots=True)
class ComponentSets:
    """A set of parts for each generation of servers."""

    since_2013: ComponentClasses = EXCHANGE_2013
    ex2010: ComponentClasses = EXCHANGE_2010

    def for_generation(self, generation: Generation) -> ComponentClasses:
        """Return the parts of a generation."""
        return self.ex2010 if generation == "ex2010" else self.since_2013

    @property
    def configuration(self) -> type[NodeConfiguration]:
        """What reads the configuration, before the generation is known: the same in all."""
        return self.since_2013.configuration

    def class_in(self, place: str) -> type:
        """Return the part at a place of `PLACES`."""
        part: type = getattr(
            self.ex2010 if place.startswith(_OF_2010) else self.since_2013, place.removeprefix(_OF_2010)
        )
        return part

    def with_replaced(self, parts: Mapping[str, type]) -> "ComponentSets":
        """Return these with other parts, by their places."""
        of_2010 = {name.removeprefix(_OF_2010): part for name, part in parts.items() if name.startswith(_OF_2010)}
        others: dict[str, Any] = {name: part for name, part in parts.items() if not name.startswith(_OF_2010)}
        shared: dict[str, Any] = {name: part for name, part in others.items() if name not in _ITS_OWN}
        return ComponentSets(replace(self.since_2013, **others), replace(self.ex2010, **shared, **of_2010))


def wire_components(host: Host, parts: ComponentClasses, identity: Identity) -> None:
    """Put one of each part into a node; they are started later, in this order."""
    host.identity = identity
    host.messages = parts.messages(host.db)
    host.shadows = parts.shadows(host.db)
    host.discards = parts.discards(host.db)
    host.delivered = parts.delivered(host.db)
    host.verbs = parts.verbs
    host.rights = parts.rights(host)
    host.acceptance = parts.acceptance(host)
    host.choice = parts.choice(host)
    host.creation = parts.creation(host)
    host.redundancy = parts.redundancy(host)
    host.keeping = parts.keeping(host)
    host.shadow_queues = parts.shadow_queues(host)
    host.discard_status = parts.discard_status(host)
    host.manager = parts.manager(host)
    host.promotion = parts.promotion(host)
    host.routing = parts.routing(host)
    host.outbound = parts.outbound(host)
    host.duplicates = parts.duplicates(host)
    host.store = parts.store(host)
    host.delivery = parts.delivery(host)
    host.completion = parts.completion(host)
    host.reports = parts.reports(host)
    host.journaling = parts.journaling(host)
    host.safety_net = parts.safety_net(host)
    host.redirection = parts.redirection(host)
    host.components = (
        host.rights, host.acceptance, host.choice, host.creation, host.redundancy, host.keeping, host.shadow_queues,
        host.discard_status, host.manager, host.promotion, host.routing, host.outbound, host.duplicates, host.store,
        host.completion, host.reports, host.journaling, host.safety_net, host.redirection, host.delivery,
    )  # fmt: skip
