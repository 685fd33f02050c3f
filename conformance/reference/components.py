"""The composition root: which class a node uses for each of its components, and how the components are made.

`ComponentClasses` has one field (slot) for each component; its defaults are the classes of Exchange 2013 and later.
`ComponentSets` has one such set for 2013 and later and one for 2010. A defect (a deliberate mistake, to test the harness) or a
reading (another way to conform) replaces the classes in some slots (`SLOTS`), so that none of the classes here asks which
generation or defect it runs in.
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
    """The class of each component of a node; the defaults are those of Exchange 2013 and later."""

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
"""The component classes of an Exchange 2010 server."""

_PREFIX_2010 = "ex2010."
_SLOTS_OF_2010 = frozenset(
    name
    for name in ComponentClasses.__dataclass_fields__
    if getattr(EXCHANGE_2010, name) is not getattr(EXCHANGE_2013, name)
)
SLOTS = frozenset(ComponentClasses.__dataclass_fields__) | {_PREFIX_2010 + name for name in _SLOTS_OF_2010}
"""The names under which a class can be replaced.

`ex2010.verbs` is the slot of an Exchange 2010 server, `verbs` that of later ones. A slot in which both use the same class has one
name, which stands for both.
"""


@dataclass(frozen=True, slots=True)
class ComponentSets:
    """The component classes for each generation of servers: `since_2013` for 2013 and later, `ex2010` for Exchange 2010.

    The objects are never changed: `with_replaced` returns a new one.
    """

    since_2013: ComponentClasses = EXCHANGE_2013
    ex2010: ComponentClasses = EXCHANGE_2010

    def for_generation(self, generation: Generation) -> ComponentClasses:
        """Return the component classes of a generation: `ex2010`, or any later one."""
        return self.ex2010 if generation == "ex2010" else self.since_2013

    @property
    def configuration(self) -> type[NodeConfiguration]:
        """The class that parses the configuration: the same for all generations, since the file names the generation."""
        return self.since_2013.configuration

    def class_in(self, slot: str) -> type:
        """Return the class in a slot of `SLOTS`, such as `verbs` or, for Exchange 2010 servers, `ex2010.verbs`."""
        kind: type = getattr(
            self.ex2010 if slot.startswith(_PREFIX_2010) else self.since_2013, slot.removeprefix(_PREFIX_2010)
        )
        return kind

    def with_replaced(self, classes: Mapping[str, type]) -> "ComponentSets":
        """Return a copy in which `classes`, keyed by slot name (`SLOTS`), replace the present ones; this applies a defect or a reading.

        A name without `ex2010.` stands for both generations, or only for 2013 and later if 2010 has a class of its own in that
        slot. Raises TypeError for an unknown name.
        """
        of_2010 = {
            name.removeprefix(_PREFIX_2010): kind for name, kind in classes.items() if name.startswith(_PREFIX_2010)
        }
        others: dict[str, Any] = {name: kind for name, kind in classes.items() if not name.startswith(_PREFIX_2010)}
        shared: dict[str, Any] = {name: kind for name, kind in others.items() if name not in _SLOTS_OF_2010}
        return ComponentSets(replace(self.since_2013, **others), replace(self.ex2010, **shared, **of_2010))


def wire_components(host: Host, classes: ComponentClasses, identity: Identity) -> None:
    """Make each component and set it on `host`; the node starts them later, in the order of `host.components`.

    `identity` has the id of the queue database; the caller has made and committed it. `host.components` does not have the objects
    with the statements of the database, such as `host.messages`, and `host.verbs`, which is a class: each session makes its own
    object of it.
    """
    host.identity = identity
    host.messages = classes.messages(host.db)
    host.shadows = classes.shadows(host.db)
    host.discards = classes.discards(host.db)
    host.delivered = classes.delivered(host.db)
    host.verbs = classes.verbs
    host.rights = classes.rights(host)
    host.acceptance = classes.acceptance(host)
    host.choice = classes.choice(host)
    host.creation = classes.creation(host)
    host.redundancy = classes.redundancy(host)
    host.keeping = classes.keeping(host)
    host.shadow_queues = classes.shadow_queues(host)
    host.discard_status = classes.discard_status(host)
    host.manager = classes.manager(host)
    host.promotion = classes.promotion(host)
    host.routing = classes.routing(host)
    host.outbound = classes.outbound(host)
    host.duplicates = classes.duplicates(host)
    host.store = classes.store(host)
    host.delivery = classes.delivery(host)
    host.completion = classes.completion(host)
    host.reports = classes.reports(host)
    host.journaling = classes.journaling(host)
    host.safety_net = classes.safety_net(host)
    host.redirection = classes.redirection(host)
    host.components = (
        host.rights, host.acceptance, host.choice, host.creation, host.redundancy, host.keeping, host.shadow_queues,
        host.discard_status, host.manager, host.promotion, host.routing, host.outbound, host.duplicates, host.store,
        host.completion, host.reports, host.journaling, host.safety_net, host.redirection,
        host.delivery,  # last: its start sends messages, for which the others must have started
    )  # fmt: skip
