"""An endpoint of a relay: which errors of its connection are the peer's."""

import errno

import pytest

from conformance.wire.endpoint import Endpoint


class Owner:
    """Keeps what an endpoint notifies it of."""

    def __init__(self) -> None:
        self.notified: list[str] = []

    def peer_ended(self, endpoint: Endpoint, how: str) -> None:
        self.notified.append(how)

    def connection_closed(self, endpoint: Endpoint) -> None:
        self.notified.append("closed")


@pytest.mark.parametrize(
    ("error", "notified"),
    [
        (ConnectionResetError(), ["reset", "closed"]),
        (OSError(errno.ETIMEDOUT, "timed out"), ["reset", "closed"]),
        (OSError(errno.ENOSPC, "no space left on device"), ["closed"]),
        (None, ["closed"]),
    ],
)
def test_a_full_disk_of_the_harness_is_no_reset_of_the_peer(error: OSError | None, notified: list[str]) -> None:
    owner = Owner()
    Endpoint(owner, "client").connection_lost(error)  # type: ignore[arg-type]
    assert owner.notified == notified
