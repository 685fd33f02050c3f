"""Secrets are found by their value in every encoding."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from conformance.history.secrets import REDACTED, Secrets

PASSWORD = 'p&ss "wörd" 1'
OCTETS = PASSWORD.encode()

WRITTEN = {
    "plain": OCTETS,
    "base64": base64.b64encode(OCTETS),
    "LOGIN with a line end": b"334 " + base64.b64encode(OCTETS) + b"\r\n",
    "PLAIN": base64.b64encode(b"\0hub1\0" + OCTETS),
    "PLAIN with an identity": base64.b64encode(b"hub1\0hub1\0" + OCTETS),
    "PLAIN with another": base64.b64encode(b"ab\0hub1\0" + OCTETS),
    "hexadecimal": OCTETS.hex().encode(),
    "HEXADECIMAL": OCTETS.hex().upper().encode(),
    "in an address": quote(PASSWORD, safe="").encode(),
    "in JSON": json.dumps({"secret": PASSWORD}).encode(),
    "in a page": html.escape(PASSWORD).encode(),
}


def without(secret: str, octets: bytes) -> bytes:
    secrets = Secrets()
    secrets.add(secret)
    return secrets.redact_octets(octets)


@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_redacted_in_every_encoding(how: str):
    cleaned = without(PASSWORD, b"before " + WRITTEN[how] + b" after " + WRITTEN[how])
    assert WRITTEN[how] not in cleaned
    assert cleaned.count(REDACTED.encode()) == 2
    assert cleaned.startswith(b"before ")
    for size in (6, 8):  # nor a part of the Base64 form
        encoded = base64.b64encode(OCTETS)
        assert not any(encoded[at : at + size] in cleaned for at in range(4, len(encoded) - size))


def test_of_two_secrets_that_begin_alike_the_longer_is_redacted_as_a_whole():
    secrets = Secrets()
    for secret in ("hunter2-is", "hunter2-is-longer"):
        secrets.add(secret)
    for octets in (b"hunter2-is-longer", base64.b64encode(b"hunter2-is-longer")):
        assert secrets.redact_octets(b"said " + octets + b".") == b"said " + REDACTED.encode() + b"."
    assert secrets.redact("hunter2-is.") == f"{REDACTED}."


def test_octets_without_a_secret_stay_the_same_object():
    octets = b"nothing of it"
    assert without(PASSWORD, octets) is octets
    assert Secrets().redact(("a", {"b": ["c"]})) == ("a", {"b": ["c"]})


def test_passwords_in_an_auth_exchange_are_learned_and_user_names_are_not():
    secrets = Secrets()
    for line in (b"AUTH\tLOGIN\r\n", base64.b64encode(b"hub1-of-corp") + b"\r\n", base64.b64encode(OCTETS) + b"\r\n"):
        secrets.add_from_auth_line(line, "s1")
    assert secrets.redact(f"535 hub1-of-corp said {PASSWORD}") == f"535 hub1-of-corp said {REDACTED}"
    secrets.add_from_auth_line(b"AUTH PLAIN " + base64.b64encode(b"\0hub1\0another-one") + b"\r\n", "s1")
    assert secrets.redact(["another-one"]) == [REDACTED]


def test_names_in_event_fields_are_not_redacted():
    secrets = Secrets()
    secrets.add("mbx1")
    assert secrets.redact_fields({"node": "mbx1", "detail": "of mbx1"}) == {"node": "mbx1", "detail": f"of {REDACTED}"}
