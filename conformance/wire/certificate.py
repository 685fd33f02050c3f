"""The TLS context of sinks: a self-signed certificate, made once by the process, that proves no identity."""

import ssl
import tempfile
from datetime import UTC, datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID_FROM, _VALID_UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@cache
def sink_context() -> ssl.SSLContext:
    """Return the context with which a sink begins TLS as a server: made at the first call, and the same at each later one."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sink")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    certificate = builder.not_valid_before(_VALID_FROM).not_valid_after(_VALID_UNTIL).sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # load_cert_chain reads files only
        plain = serialization.NoEncryption()
        file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    return context
