"""Fixtures of the tests of virtual time: TLS contexts, a check for leaked descriptors and processes, a busy core."""

import ssl
import subprocess
import sys
from collections.abc import Iterator

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
def _check_leaks(no_leaks: None) -> None:
    """Apply `no_leaks` to every test of this folder."""


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep the last core that this process may use busy until the test is over."""
    program = "import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program]) as burner:
        try:
            yield
            assert burner.poll() is None, "it was busy to the end"
        finally:
            burner.kill()
