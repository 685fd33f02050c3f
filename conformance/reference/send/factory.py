"""Which client speaks which protocol."""

from typing import Literal

from conformance.reference.config import Address
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.lmtp import LmtpDialogue
from conformance.reference.send.smtp import SmtpDialogue


def create_dialogue(
    address: Address,
    hello: str,
    idle: float,
    protocol: Literal["smtp", "lmtp"] = "smtp",
    secret: str | None = None,
) -> Dialogue:
    """Return a session with a server, still to be opened; `idle` is how long it may be silent, seconds.

    With a `secret` we prove to the server who we are, where it lets us.
    """
    if protocol == "lmtp":
        return LmtpDialogue(address, hello, idle)
    return SmtpDialogue(address, hello, idle, secret)
