"""The parts that a node is made of: the right ones by default; a defect puts a wrong one in the place of one."""

from dataclasses import dataclass

from conformance.reference.config import Generation
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.receive.acceptance import Acceptance
from conformance.reference.receive.session import Receiver
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes that `conformance.reference.node` puts together."""

    store: type[MailboxStore] = MailboxStore
    manager: type[ShadowRedundancyManager] = ShadowRedundancyManager
    creation: type[ShadowCreation] = ShadowCreation
    discards: type[DiscardStatus] = DiscardStatus
    delivery: type[Delivery] = Delivery
    acceptance: type[Acceptance] = Acceptance
    safety_net: type[SafetyNet] = SafetyNet
    receiver: type[Receiver] = Receiver

    def of(self, generation: Generation) -> "Parts":
        """Return the parts of a generation of servers."""
        return self
