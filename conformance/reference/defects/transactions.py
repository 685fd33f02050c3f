"""Defects in which a mail transaction has something of the one before it in the same session.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.receive.session import Receiver


@defect("keeps-recipients-over-helo", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOverHelo(Receiver):
    """Passes a message on to recipients of a transaction that HELO has ended, too."""

    async def smtp_HELO(self, arg: str) -> None:
        """Handle HELO, and keep the recipients; correct is to discard them (RFC 5321 4.1.4)."""
        kept = self._recipients
        await super().smtp_HELO(arg)
        self._recipients = kept


@defect("keeps-recipients-of-refused-content", breaks="RL-CNT-01", slot="receiver")
class KeepsRecipientsOfRefusedContent(Receiver):
    """Passes a message on to the recipients of another one, which was refused for its size, too."""

    handled = False

    async def smtp_DATA(self, arg: str) -> None:
        """Handle DATA and the content; keep the recipients if the content was refused before it was handled (RFC 5321 4.1.1.4)."""
        kept, self.handled = self._recipients, False
        await super().smtp_DATA(arg)
        if not self.handled:
            self._recipients = kept

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a whole message; return the reply."""
        self.handled = True
        return await super().handle_message(content)
