"""What endpoints share, where several event loops run in one process."""

import threading

from conformance.wire.endpoint import Endpoint


class Owner:
    """Keeps what an endpoint has received."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def data_received(self, endpoint: Endpoint, data: bytes) -> None:
        self.received.append(data)


def test_octets_that_another_thread_reads_at_the_same_time_are_not_mixed_in():
    owner, other = Owner(), Owner()
    endpoint = Endpoint(owner, "client")  # type: ignore[arg-type]

    def read_meanwhile() -> None:
        reading = Endpoint(other, "client")  # type: ignore[arg-type]
        reading.get_buffer(-1)[:6] = b"other!"
        reading.buffer_updated(6)

    endpoint.get_buffer(-1)[:5] = b"octet"
    thread = threading.Thread(target=read_meanwhile)
    thread.start()
    thread.join()
    endpoint.buffer_updated(5)
    assert (owner.received, other.received) == ([b"octet"], [b"other!"])
