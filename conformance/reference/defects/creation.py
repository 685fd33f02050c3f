"""Defects in making the shadow copy: none, too early, too late, too many, or not equal to the message.

`make_shadow` is called for each message before its acknowledgement, with a `deadline` in the event loop's time, and with None for
messages that no sender waits for. It tries one server after another (`try_server`) until one has stored the copy, and returns
whether one has.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from dataclasses import replace

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.message import Message
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.creation import ShadowCreation


@defect("never-shadows", breaks="SR-CRE-01", slot="creation")
class NeverShadows(ShadowCreation):
    """Makes no shadow of any message, whatever is configured."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make no shadow, and return True, as if one were stored, unless RejectMessageOnShadowFailure is set; then return False."""
        return not self.host.transport.RejectMessageOnShadowFailure


@defect("off-until-switched-on", breaks="SR-ENA-01", slot="creation")
class OffUntilSwitchedOn(ShadowCreation):
    """Makes no shadow until ShadowRedundancyEnabled has been switched off and on again."""

    switched = False

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow only after ShadowRedundancyEnabled was false at an earlier message; return whether one was stored.

        Before that return True, as if one were stored, unless RejectMessageOnShadowFailure is set. While the parameter is false
        return False, as is correct.
        """
        self.switched = self.switched or not self.host.transport.ShadowRedundancyEnabled
        if self.switched:
            return await super().make_shadow(message, content, deadline)
        return not self.host.transport.RejectMessageOnShadowFailure


@defect("shadows-though-disabled", breaks="SR-ENA-02", slot="creation")
class ShadowsThoughDisabled(ShadowCreation):
    """Opens shadow sessions with ShadowRedundancyEnabled false."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow; if ShadowRedundancyEnabled is false, try it on the first server only. Return whether one was stored.

        Correct is to make none and to open no session if it is false (SR-ENA-02). `deadline` is ignored then.
        """
        if self.host.transport.ShadowRedundancyEnabled:
            return await super().make_shadow(message, content, deadline)
        return any([await self.try_server(peer, message, content) for peer in self.host.choice.servers_to_try()[:1]])


async def _do_nothing() -> None:
    """Do nothing: takes the place of `Dialogue.open`, which connects, in a session that is open already."""


@defect(
    "opens-shadow-session-early",
    breaks="SR-CRE-02",
    slot="creation",
    retired="ruling 14: a session that was opened before may be used",
)
class OpensEarly(ShadowCreation):
    """Keeps a session with each possible shadow server open from the start, and uses that for the first message."""

    def start(self) -> None:
        """Open a session with each possible shadow server in the background, at the start of the node."""
        self.kept: dict[str, Dialogue] = {}  # by the name of the server
        for peer in {peer.name: peer for peer in self.host.choice.servers_to_try()}.values():
            self.host.tasks.start(self._open(peer), f"{self.host.name}: session with {peer.name}")

    async def _open(self, peer: Peer) -> None:
        """Open a session with a server and keep it for the first message; retry each second until the server is up."""
        while peer.name not in self.kept:
            dialogue = super().new_dialogue(peer)
            try:
                await dialogue.open()
            except SessionLost:
                await asyncio.sleep(1)  # it is not up yet
            else:
                self.kept[peer.name] = dialogue

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return the session with a server that was opened at the start; if there is none, or it was used, a new one, not connected.

        The `open` of the former, which `try_server` calls, does nothing any more.
        """
        kept = self.kept.pop(peer.name, None)
        if kept is None:
            return super().new_dialogue(peer)
        kept.open = _do_nothing  # type: ignore[method-assign]
        return kept


@defect("sends-the-copy-after-the-reply", breaks="SR-CRE-02", slot="creation")
class SendsTheCopyAfterTheReply(ShadowCreation):
    """Opens the shadow session while the sender waits, and sends the copy only after the sender has its reply."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Return True, as if a shadow were stored, as soon as a session for it is open, and leave the copy to a background task.

        Return False if no server opens one. `deadline` and ShadowRedundancyEnabled are ignored.
        """
        for peer in self.host.choice.servers_to_try():
            dialogue = self.new_dialogue(peer)
            try:
                await dialogue.open()
                await self.request_shadow(peer, dialogue)
            except SessionLost:
                dialogue.abort()
            else:
                self.host.tasks.start(
                    self._send_later(peer, message, content, dialogue), f"{self.host.name}: late copy"
                )
                return True
        return False

    async def _send_later(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the copy in the open session a second later, when the sender has its reply, and close it; only log if it is lost."""
        try:
            await asyncio.sleep(1)  # the sender has its reply by then
            await self.transmit_shadow(peer, message, content, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.warning("%s shadow: late copy failed: %s", message.message_id, lost)
        finally:
            dialogue.abort()


@defect("shadows-twice", breaks="SR-CRE-09", slot="creation")
class ShadowsTwice(ShadowCreation):
    """Makes a shadow on every server that it may ask."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow on every server that may be tried, not on the first that succeeds only; return whether any was stored.

        `deadline` and ShadowRedundancyEnabled are ignored.
        """
        # `servers_to_try` lists a server once for each attempt at it
        peers = {peer.name: peer for peer in self.host.choice.servers_to_try()}.values()
        return any([await self.try_server(peer, message, content) for peer in peers])


@defect("takes-refusal-for-a-shadow", breaks="SR-PRF-07", slot="creation")
class TakesRefusalForAShadow(ShadowCreation):
    """Counts the last permitted attempt as a success, however it ended."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Try to have a shadow stored, and wait for that; return True, as if one were, even if all attempts failed or the time was over."""
        await super().make_shadow(message, content, deadline)
        return True


@defect("timeout-counts-as-shadow", breaks="SR-TMO-02", slot="creation")
class TimeoutCountsAsShadow(ShadowCreation):
    """When a shadow session takes too long, takes the copy for made."""

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Send the copy to one server; return whether it has stored it, or True if that took nearly as long as a session may be idle.

        The attempt ends after 90 % of SendConnectionInactivityTimeout, before the correct class would give it up.
        """
        patience = self.host.transport.SendConnectionInactivityTimeout * 0.9
        try:
            async with asyncio.timeout(patience):
                return await super().try_server(peer, message, content)
        except TimeoutError:
            return True


@defect("waits-for-ever-for-a-shadow-server", breaks="SR-TMO-08", slot="creation")
class WaitsForeverForShadowServer(ShadowCreation):
    """Waits for a silent shadow server for a week."""

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return a session with the server, not connected yet, in which a reply may take a week, not SendConnectionInactivityTimeout."""
        dialogue = super().new_dialogue(peer)
        dialogue.idle_timeout = 7 * 86400.0
        return dialogue


class AltersShadow(ShadowCreation):
    """Base class of defects whose shadow copy is not equal to the message."""

    def altered_shadow(self, message: Message, content: bytes) -> tuple[Message, bytes]:
        """Return the message, whose envelope is used, and the content that are sent as the shadow in place of the correct ones.

        Subclasses implement it; here it raises NotImplementedError.
        """
        raise NotImplementedError

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the altered copy to a server. Raises SessionLost if it is not stored."""
        await super().transmit_shadow(peer, *self.altered_shadow(message, content), dialogue)


@defect("shadow-loses-a-recipient", breaks="SR-CRE-06", slot="creation")
class ShadowLosesARecipient(AltersShadow):
    """Leaves the last of several recipients out of the shadow's envelope."""

    def altered_shadow(self, message: Message, content: bytes) -> tuple[Message, bytes]:
        """Return the message without its last recipient, unless that is the only one, and the content as it is."""
        recipients = message.envelope.recipients
        return replace(message, envelope=message.envelope.for_recipients(recipients[:-1] or recipients)), content


@defect("shadow-has-another-sender", breaks="SR-CRE-06", slot="creation")
class ShadowHasAnotherSender(AltersShadow):
    """Gives the shadow a null reverse-path."""

    def altered_shadow(self, message: Message, content: bytes) -> tuple[Message, bytes]:
        """Return the message with a null reverse-path, and the content as it is."""
        return replace(message, envelope=replace(message.envelope, reverse_path="")), content


@defect("shadow-alters-an-octet", breaks="SR-CRE-06", slot="creation")
class ShadowAltersAnOctet(AltersShadow):
    """Changes one octet of the shadow's body."""

    def altered_shadow(self, message: Message, content: bytes) -> tuple[Message, bytes]:
        """Return the message as it is, and the content with its last octet before trailing line ends and dots replaced by x or y."""
        place = max(len(content.rstrip(b"\r\n.")) - 1, 0)
        return message, content[:place] + (b"x" if content[place : place + 1] != b"x" else b"y") + content[place + 1 :]


@defect(
    "answers-when-the-shadow-session-has-ended",
    breaks="SR-CRE-05",
    slot="creation",
    needs_expectation="no document says how soon the acknowledgement follows that of the shadow server",
)
class AnswersWhenTheShadowSessionHasEnded(ShadowCreation):
    """Acknowledges a message only when its session with the shadow server has ended."""

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Send the copy to one server as is correct, and wait for the end of the session; return whether the copy is stored."""
        is_stored = await super().try_server(peer, message, content)
        if self._finishing:
            await asyncio.wait(self._finishing)
        return is_stored
