"""Leases of ports: each port has one holder at a time among all processes of the machine."""

import os
import socket
import subprocess
import sys

import pytest

from conformance.nodes import places
from conformance.nodes.places import PortLeases


@pytest.fixture
def one_port(monkeypatch: pytest.MonkeyPatch) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    monkeypatch.setattr(places, "FIRST", port)
    monkeypatch.setattr(places, "LAST", port + 1)
    return port


def test_a_port_has_one_holder_until_it_is_released(one_port: int):
    first, second = PortLeases(), PortLeases()
    assert first.lease() == one_port
    with pytest.raises(OSError, match="no loopback port"):
        second.lease()
    first.release()
    assert second.lease() == one_port
    second.release()


def test_a_lease_holds_against_a_process_with_another_temporary_directory(one_port: int, tmp_path: object):
    leases = PortLeases()
    assert leases.lease() == one_port
    script = f"from conformance.nodes import places; places.FIRST, places.LAST = {one_port}, {one_port + 1}; "

    def lease_in_other() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script + "print(places.PortLeases().lease())"],
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )

    other = lease_in_other()
    leases.release()
    assert "no loopback port" in other.stderr
    assert other.stdout == ""
    assert lease_in_other().stdout == f"{one_port}\n", "the lease was released"


def test_a_port_with_a_listener_is_not_leased(one_port: int):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", one_port))
        listener.listen()
        with pytest.raises(OSError, match="no loopback port"):
            PortLeases().lease()
    leases = PortLeases()
    assert leases.lease() == one_port, "it is free once the listener is closed"
    leases.release()
