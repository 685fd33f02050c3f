"""Secrets are found by their value in every encoding."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from conformance.history.secrets import REDACTED, Secrets

PASSWORD = 'p&ss "wörd" 1'
OCTETS = PASSWORD.encode()

GONE = REDACTED.encode()

WRITTEN = {
    "plain": (OCTETS, GONE),
    "base64": (base64.b64encode(OCTETS), GONE),
    "LOGIN with a line end": (b"334 " + base64.b64encode(OCTETS) + b"\r\n", b"334 " + GONE + b"\r\n"),
    "PLAIN": (base64.b64encode(b"\0hub1\0" + OCTETS), GONE),
    "PLAIN with an identity": (base64.b64encode(b"hub1\0hub1\0" + OCTETS), GONE),
    "PLAIN with another": (base64.b64encode(b"ab\0hub1\0" + OCTETS), GONE),
    "hexadecimal": (OCTETS.hex().encode(), GONE),
    "HEXADECIMAL": (OCTETS.hex().upper().encode(), GONE),
    "in an address": (quote(PASSWORD, safe="").encode(), GONE),
    "in an address in lower case": (quote(PASSWORD, safe="").replace("%C3%B6", "%c3%b6").encode(), GONE),
    "in JSON of UTF-8": (json.dumps([PASSWORD], ensure_ascii=False).encode(), b'["' + GONE + b'"]'),
    "in JSON": (json.dumps({"secret": PASSWORD}).encode(), b'{"secret": "' + GONE + b'"}'),
    "in a page": (html.escape(PASSWORD).encode(), GONE),
}
"""How the password may be written, and what is left of that: of Base64, nothing of the whole word."""


def without(secret: str, octets: bytes) -> bytes:
    secrets = Secrets()
    secrets.add(secret)
    return secrets.redact_octets(octets)


@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_redacted_in_every_encoding(how: str):
    written, left = WRITTEN[how]
    assert without(PASSWORD, b"before " + written + b" after " + written) == b"before " + left + b" after " + left


@pytest.mark.parametrize("order", [1, -1], ids=["shorter first", "longer first"])
def test_of_two_secrets_that_begin_alike_the_longer_is_redacted_as_a_whole(order: int):
    secrets = Secrets()
    alike = ["hunter2-is" + "-longer" * times for times in range(8)]
    for secret in alike[::order]:
        secrets.add(secret)
    for secret in alike:
        for octets in (secret.encode(), base64.b64encode(secret.encode())):
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
    assert secrets.redact(["hub1", "another-one"]) == ["hub1", REDACTED]
    for line, session in (
        (b"AUTH PLAIN", "s1"), (b"AUTH LOGIN " + base64.b64encode(b"hub2-of-corp"), "s2"),
        (base64.b64encode(b"\0hub3\0of-its-own-line"), "s1"), (base64.b64encode(b"after-the-name"), "s2"),
        (b"AUTH LOGIN", "s2"), (base64.b64encode(b"hub4-of-corp"), "s2"), (base64.b64encode(b"a-second-try"), "s2"),
    ):  # fmt: skip
        secrets.add_from_auth_line(line + b"\r\n", session)
    assert secrets.redact(["after-the-name", "of-its-own-line", "a-second-try"]) == [REDACTED] * 3
    names = ["hub2-of-corp", "hub3", "hub4-of-corp"]
    assert secrets.redact(names) == names


def test_the_names_of_two_sessions_that_authenticate_at_once_are_not_learned_as_passwords():
    secrets = Secrets()
    for session in ("a", "b"):
        secrets.add_from_auth_line(b"AUTH LOGIN\r\n", session)
    for text, session in (
        ("first-user-name", "a"), ("second-user-name", "b"), ("the-first-password", "a"), ("the-second-password", "b"),
    ):  # fmt: skip
        secrets.add_from_auth_line(base64.b64encode(text.encode()) + b"\r\n", session)
    plain = base64.b64encode(b"acting-for-another\0a-long-user-name\0its-own-password")
    secrets.add_from_auth_line(b"AUTH PLAIN " + plain + b"\r\n", "c")
    names = ["first-user-name", "second-user-name", "acting-for-another", "a-long-user-name"]
    assert secrets.redact(names) == names
    passwords = ["the-first-password", "the-second-password", "its-own-password"]
    assert secrets.redact(passwords) == [REDACTED] * 3


def test_names_in_event_fields_are_not_redacted():
    secrets = Secrets()
    secrets.add("mbx1")
    parties = ("node", "client", "server", "giver", "sink", "sender", "listener", "links")
    names = dict.fromkeys((*parties, "message", "session", "conversation", "fault", "label"), "mbx1")
    assert secrets.redact_fields({**names, "detail": "of mbx1"}) == {**names, "detail": f"of {REDACTED}"}
