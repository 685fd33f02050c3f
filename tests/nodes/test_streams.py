"""Streams of a misbehaving engine, which the tests play at the other end of a socket."""

import functools
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import docker
import pytest

from conformance.nodes import streams
from conformance.nodes.streams import Stream, closing_after, copy_to_log, run_inside

UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def chunk(kind: int, octets: bytes) -> bytes:
    return struct.pack(">BxxxL", kind, len(octets)) + octets


@contextmanager
def engine(place: Path, printed: bytes, exit_code: int | None) -> Iterator[docker.APIClient]:
    """Yield a client of an engine that has run a command; the output comes in one piece with the response head."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "a socket"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/start"):
                self.wfile.write(UPGRADED + printed)
                self.close_connection = not self.rfile.read(1)
            else:
                self.send_json({"Id": "one"})

        def do_GET(self) -> None:
            self.send_json({"ExitCode": exit_code})

        def send_json(self, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingUnixStreamServer(str(place), Answers) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        client = docker.APIClient(base_url=f"unix://{place}", version="1.41")
        try:
            yield client
        finally:
            client.close()
            server.shutdown()
            serving.join()


class Container:
    """A container that ends when `ended` is set."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def wait(self, timeout: float | None) -> dict[str, int]:
        self.ended.wait()
        return {"StatusCode": 7}


@contextmanager
def pair() -> Iterator[tuple[Stream, socket.socket]]:
    """Yield a stream, and the engine's end of it."""
    here, there = socket.socketpair()
    with here, there:
        yield Stream(here.makefile("rb"), here), there


def test_output_that_arrives_with_the_response_head_is_read(tmp_path: Path):
    printed = chunk(1, b"at once") + chunk(2, b"and this") + b"cut"
    with engine(tmp_path / "sock", printed, 3) as client:
        assert run_inside(client, "it", ["true"], within=0.5, max_octets=5) == (3, b"at on", b"and t")


def test_a_command_that_does_not_end_times_out(tmp_path: Path):
    with engine(tmp_path / "sock", chunk(1, b"going on"), None) as client, pytest.raises(TimeoutError):
        run_inside(client, "it", ["sleep"], within=0.1, max_octets=100)


def test_a_stream_that_is_closed_in_the_middle_of_a_chunk_drops_that_chunk():
    with pair() as (stream, there):
        there.sendall(chunk(1, b"whole") + chunk(1, b"cut off")[:-1])
        with closing_after(stream, 0.1):
            assert list(stream.chunks()) == [(1, b"whole")]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    """Yield the descriptor of an open log file."""
    with (tmp_path / "log").open("ab") as file:
        yield file.fileno()


@pytest.mark.parametrize("ends", [True, False], ids=["it-ends", "it-never-ends"])
def test_a_container_has_ended_when_the_engine_says_so(
    ends: bool, log: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(streams, "_MAX_DRAIN_S", 0.1 if not ends else 60)
    container = Container()
    with pair() as (stream, there):
        there.sendall(chunk(1, b"first\n") + chunk(2, b"last\n"))
        if ends:
            there.shutdown(socket.SHUT_RDWR)
        container.ended.set()
        assert copy_to_log(container, stream, log, 1000) == 7
    assert (tmp_path / "log").read_bytes() == b"first\nlast\n"


@pytest.mark.parametrize(
    ("pieces", "truncated"),
    [
        ([b"1234"], False),
        ([b"12", b"34"], False),
        ([b"12345678"], True),
        ([b"1234", b"5678"], True),
        ([b"12", b"34", b"5", b"678"], True),
    ],
)
def test_a_log_ends_with_one_notice_if_it_was_truncated_whatever_the_chunk_sizes(
    pieces: list[bytes], truncated: bool, log: int, tmp_path: Path
):
    container = Container()
    with pair() as (stream, there):
        there.sendall(b"".join(chunk(1, piece) for piece in pieces))
        there.shutdown(socket.SHUT_RDWR)
        container.ended.set()
        copy_to_log(container, stream, log, 4)
    notice = b"\n[the log is at its limit; what follows was dropped]\n"
    assert (tmp_path / "log").read_bytes() == b"1234" + (notice if truncated else b"")


def test_a_container_that_closed_its_output_has_not_ended(log: int):
    container, code = Container(), []
    with pair() as (stream, there):
        following = threading.Thread(target=lambda: code.append(copy_to_log(container, stream, log, 1000)))
        following.start()
        there.shutdown(socket.SHUT_RDWR)
        following.join(0.1)
        assert following.is_alive()
        assert not code
        container.ended.set()
        following.join()
    assert code == [7]


def test_the_output_of_a_container_is_copied_until_it_has_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "_MAX_DRAIN_S", 0)
    container, code = Container(), []
    copied, log = socket.socketpair()
    with copied, log, pair() as (stream, there):
        copy = functools.partial(copy_to_log, container, stream, log.fileno(), 1000)
        following = threading.Thread(target=lambda: code.append(copy()), daemon=True)
        following.start()
        following.join(0.1)  # it is silent for longer than the rest of its output may take
        there.sendall(chunk(1, b"late"))
        copied.settimeout(20)
        assert copied.recv(100) == b"late"
        container.ended.set()
        following.join()
    assert code == [7]


def test_an_engine_that_is_gone_is_reported(log: int):
    class Lost(Container):
        def wait(self, timeout: float | None) -> dict[str, int]:
            raise docker.errors.DockerException("gone")

    with pair() as (stream, _), pytest.raises(docker.errors.DockerException, match="gone"):
        copy_to_log(Lost(), stream, log, 1000)
