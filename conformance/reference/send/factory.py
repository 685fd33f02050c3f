"""Making a client session for a protocol: how the rest of the node gets a `Dialogue`."""

from typing import Literal

from conformance.reference.config import Address
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.lmtp import LmtpDialogue
from conformance.reference.send.smtp import SmtpDialogue


def create_dialogue(
    address: Address,
    own_name: str,
    idle_timeout: float,
    protocol: Literal["smtp", "lmtp"] = "smtp",
    secret: str | None = None,
    *,
    prefers_tls: bool = False,
) -> Dialogue:
    """Return a client session with a server, not connected yet.

    `address` is its host and port, `own_name` the EHLO name, `idle_timeout` how long the server may be silent (seconds). With a
    `secret`, which the two servers share, the SMTP session authenticates if the server offers AUTH within TLS; with `prefers_tls`
    it uses TLS if the server offers that. LMTP does neither.
    """
    if protocol == "lmtp":
        return LmtpDialogue(address, own_name, idle_timeout)
    dialogue = SmtpDialogue(address, own_name, idle_timeout, secret)
    dialogue.prefers_tls = prefers_tls
    return dialogue
