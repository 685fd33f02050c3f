"""Whether octets wait to be read, and what an error of a connection means, in words that are the same in every run."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

import pytest

from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.wire.sockets import describe_error, has_unread_octets


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, VirtualClockEventLoop])
def test_octets_are_unread_in_the_kernel_and_in_the_reader_until_they_are_read(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main(mine: socket.socket, peer: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=mine)
        assert not has_unread_octets(reader, writer)
        peer.send(b"in the kernel\n")
        assert has_unread_octets(reader, writer)
        assert await reader.readline() == b"in the kernel\n"
        assert not has_unread_octets(reader, writer)
        peer.send(b"one\ntwo\n")
        assert await reader.readline() == b"one\n"
        assert has_unread_octets(reader, writer)
        await reader.readline()
        peer.shutdown(socket.SHUT_WR)
        assert await reader.read() == b""
        assert not has_unread_octets(reader, writer), "at the end of the stream"
        writer.transport.abort()
        await writer.wait_closed()
        assert not has_unread_octets(reader, writer), "after the socket was closed"

    mine, peer = socket.socketpair()
    with peer, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(mine, peer))


def tls_error() -> ssl.SSLError:
    """Return the error of a TLS handshake with a server that speaks plain SMTP."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    received.write(b"220 ready\r\n")
    with pytest.raises(ssl.SSLError) as raised:
        ssl.create_default_context().wrap_bio(received, sent, server_hostname="x.test").do_handshake()
    return raised.value


def test_errors_of_tls_and_of_names_keep_their_own_reasons() -> None:
    assert tls_error().errno == errno.EPERM  # a number of OpenSSL, and no errno
    assert describe_error(tls_error()) == "WRONG_VERSION_NUMBER"
    assert describe_error(ssl.SSLError(1, "made here")) == "made here"
    assert (
        describe_error(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"
    )


def test_other_errors_are_described_by_errno_without_addresses() -> None:
    assert describe_error(ConnectionRefusedError(errno.ECONNREFUSED, "127.0.0.1:1")) == "Connection refused"
    assert describe_error(OSError(errno.ENETUNREACH, "[2001:db8::1]:25")) == "Network is unreachable"
    assert describe_error(OSError("no number")) == "no number"
    assert describe_error(TimeoutError()) == "it took too long"
