"""LMTP as a client (RFC 2033)."""

from conformance.reference.replies import Reply
from conformance.reference.send.spoken import SpokenDialogue


class LmtpDialogue(SpokenDialogue):
    """A session with an LMTP server."""

    greeting = "LHLO"

    async def body(self, content: bytes, recipients: int) -> list[Reply]:
        """Send a message's content, and return a reply for each recipient. Raises SessionLost."""
        connection = self._open()
        connection.write(content, replies=recipients)
        return [await connection.reply(self.idle) for _ in range(recipients)]
