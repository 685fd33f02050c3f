"""The parts that a node is made of: the right ones by default; a defect puts a wrong one in the place of one."""

from dataclasses import dataclass, replace

from conformance.reference.config import Generation
from conformance.reference.hub2010.absent import NoSafetyNet, NoShadowAtReceipt
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.heartbeat import Heartbeat
from conformance.reference.hub2010.session import HubReceiver
from conformance.reference.hub2010.transport_redundancy import TransportRedundancy
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
    """The classes that `conformance.reference.node` puts together; `hub_...` take the place of the others in a server of
    Exchange 2010."""

    store: type[MailboxStore] = MailboxStore
    manager: type[ShadowRedundancyManager] = ShadowRedundancyManager
    creation: type[ShadowCreation] = ShadowCreation
    discards: type[DiscardStatus] = DiscardStatus
    delivery: type[Delivery] = Delivery
    acceptance: type[Acceptance] = Acceptance
    safety_net: type[SafetyNet] = SafetyNet
    receiver: type[Receiver] = Receiver
    hub_manager: type[Heartbeat] = Heartbeat
    hub_creation: type[NoShadowAtReceipt] = NoShadowAtReceipt
    hub_delivery: type[TransportRedundancy] = TransportRedundancy
    hub_acceptance: type[DelayedAcknowledgement] = DelayedAcknowledgement
    hub_safety_net: type[NoSafetyNet] = NoSafetyNet
    hub_receiver: type[HubReceiver] = HubReceiver

    def of(self, generation: Generation) -> "Parts":
        """Return the parts of a generation of servers."""
        if generation != "ex2010":
            return self
        return replace(
            self,
            manager=self.hub_manager,
            creation=self.hub_creation,
            delivery=self.hub_delivery,
            acceptance=self.hub_acceptance,
            safety_net=self.hub_safety_net,
            receiver=self.hub_receiver,
        )
