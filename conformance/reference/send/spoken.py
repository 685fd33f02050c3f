"""A dialogue over a connection of its own: what SMTP and LMTP have in common there."""

import asyncio

from conformance.reference.replies import Reply
from conformance.reference.send.connection import Connection
from conformance.reference.send.dialogue import Dialogue, SessionLost


class SpokenDialogue(Dialogue):
    """A session over TCP."""

    connection: Connection | None = None

    async def connect(self) -> Reply:
        """Connect, and return the greeting. Raises SessionLost."""
        try:
            async with asyncio.timeout(self.idle):
                loop = asyncio.get_running_loop()
                _, self.connection = await loop.create_connection(Connection, *self.address)
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self.connection.reply(self.idle)

    async def command(self, line: str) -> Reply:
        """Say a line and return the reply; what cannot be said as one line is refused here. Raises SessionLost."""
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        connection = self._open()
        connection.write(line.encode("ascii", "replace") + b"\r\n", replies=1)
        return await connection.reply(self.idle)

    def abort(self) -> None:
        """End the connection at once."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abort()

    def _open(self) -> Connection:
        if self.connection is None:
            raise SessionLost("the session is over")
        return self.connection
