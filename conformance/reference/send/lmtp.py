"""The LMTP client (RFC 2033), by which a node delivers into a mailbox store or to another server's mailboxes."""

from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost

NO_REPLY = Reply(451, "4.4.2", "the session was lost before the reply for this recipient")
"""What stands for the reply to a recipient that did not come."""


class LmtpDialogue(Dialogue):
    """A client session with an LMTP server."""

    greeting_command = "LHLO"

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return the reply for each accepted recipient. Raises SessionLost.

        If the session is lost after some of the replies, the recipients of the others get 451: what the server did with the
        message for them is not known (RFC 2033 4.2).
        """
        self._write(content)
        replies: list[Reply] = []
        try:
            while len(replies) < recipients:
                replies.append(await self._reply())
        except SessionLost:
            if not replies:
                raise
        return replies + [NO_REPLY] * (recipients - len(replies))
