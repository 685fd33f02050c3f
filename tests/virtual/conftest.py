"""What the tests of virtual time share: a certificate, and a look at what is left open."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture(scope="session")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts of a server and of a client that trusts it, as `localhost`."""
    directory = tmp_path_factory.mktemp("certificate")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """No test leaves a socket, pipe or child behind; what was there before it, a JVM of other tests, is not its own."""
    here = psutil.Process()
    children = here.children()
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    yield
    assert {path.name for path in Path("/proc/self/fd").iterdir()} <= before
    assert set(here.children()) <= set(children)


@pytest.fixture
def busy() -> Iterator[None]:
    """The second core computes all the time."""
    program = "import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program]) as burner:
        try:
            yield
            assert burner.poll() is None, "it was busy to the end"
        finally:
            burner.kill()
