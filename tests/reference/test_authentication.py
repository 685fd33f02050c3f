"""Authentication between servers of the organisation: AUTH with the pair's secret, after STARTTLS (SR-E10-18)."""

import asyncio
import base64
import json
import ssl
from pathlib import Path

import pytest

from conformance.nodes.configuration import Wiring, render
from conformance.nodes.places import PortLeases
from conformance.reference.node import create
from conformance.reference.send.smtp import SmtpDialogue
from conformance.reference.timers import SystemClock
from conformance.scenarios.steps.talking import Line
from conformance.topology import Topology
from conformance.wire.talk import TalkResult, talk

SECRET = "between-one-and-two"
OTHER_SECRET = "between-three-and-two"


def three_hubs(secret: str | None) -> Topology:
    """Return hubs of which hub2 has a secret with hub1, or none for None, and then with hub3 another, or none."""
    other = None if secret is None else OTHER_SECRET
    return Topology.model_validate(
        {
            "name": "three-hubs",
            "externally-secured": False,
            "servers": [
                {"name": name, "generation": "ex2010", "role": "hub", "site": "A"} for name in ("hub1", "hub2", "hub3")
            ],
            "rights": [
                {"server": "hub2", "peer": "hub1", "secret": secret},
                {"server": "hub2", "peer": "hub3", "secret": other},
            ],
        }
    )


def with_hub2(tmp_path: Path, secret: str | None, steps) -> None:
    """Run hub2, which shares this secret with hub1, and call the steps of a test with its address."""

    async def main() -> None:
        leases = PortLeases()
        ports = {door: ("127.0.0.1", leases.lease()) for door in ("frontend", "transport")}
        topology = three_hubs(secret)
        wiring = Wiring(listen=lambda server, door: ports[door], dial=lambda *pair: ("127.0.0.1", 9))
        document = render(topology, topology.by_name["hub2"], wiring, data_dir=tmp_path / "data", seed=1)
        path = tmp_path / "node.json"
        path.write_text(json.dumps(document))
        node = create(path, SystemClock())
        await node.start()
        try:
            await steps(ports["transport"])
        finally:
            await node.kill()
            leases.release()
        assert node.failure is None

    asyncio.run(main())


async def say(address: tuple[str, int], *lines: dict[str, object]) -> TalkResult:
    return await talk(address, [Line.model_validate(line) for line in lines], make_content=lambda name: b"")


def plain(user: str, secret: str) -> str:
    return "AUTH PLAIN " + base64.b64encode(f"\0{user}\0{secret}".encode()).decode()


def test_commands_sent_along_with_starttls_are_discarded(tmp_path: Path):
    async def steps(address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address)
        await reader.readuntil(b"\r\n")
        writer.write(b"EHLO hub1\r\n")
        while not (await reader.readuntil(b"\r\n")).startswith(b"250 "):
            pass
        writer.write(b"STARTTLS\r\nVRFY injected\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"220 ")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        await writer.start_tls(context)
        writer.write(b"NOOP\r\nQUIT\r\n")
        replies = (await reader.read()).split(b"\r\n")
        assert [reply[:3] for reply in replies] == [b"250", b"221", b""]
        writer.close()

    with_hub2(tmp_path, SECRET, steps)


def test_a_recorded_authentication_has_its_secret_redacted(tmp_path: Path):
    async def steps(address: tuple[str, int]) -> None:
        said = await say(
            address,
            {"code": 220},
            {"say": "EHLO hub1", "code": 250, "has": "STARTTLS", "lacks": "AUTH"},
            {"say": "STARTTLS", "code": 220, "secure": True},
            {"say": "EHLO hub1", "code": 250, "has": "AUTH PLAIN", "lacks": "STARTTLS"},
            {"say": plain("hub1", SECRET), "code": 235},
            {"say": "EHLO hub1", "code": 250, "has": "XSHADOW"},
        )
        assert said.problem == ""
        assert [exchange.sent for exchange in said.exchanges][4] == "AUTH PLAIN (redacted)"
        assert plain("hub1", SECRET).removeprefix("AUTH PLAIN ") not in repr(said)
        assert SECRET not in repr(said)

    with_hub2(tmp_path, SECRET, steps)


@pytest.mark.parametrize(
    "line",
    [
        "hub1:a guess", "hub1:between-three-and-two", "hub2:between-one-and-two", "hub3:between-one-and-two",
        "stranger:between-one-and-two", "hub1:",
    ],
)  # fmt: skip
def test_a_client_with_a_wrong_secret_stays_unauthenticated(tmp_path: Path, line: str):
    async def steps(address: tuple[str, int]) -> None:
        user, _, secret = line.partition(":")
        said = await say(
            address,
            {"code": 220},
            {"say": "EHLO hub1", "code": 250},
            {"say": "STARTTLS", "code": 220, "secure": True},
            {"say": "EHLO hub1", "code": 250},
            {"say": plain(user, secret), "code": 535, "enhanced": "5.7.8"},
            {"say": "XSHADOW hub1 a-database", "code": 502},
            {"say": "EHLO hub1", "code": 250, "lacks": "XSHADOW"},
        )
        assert said.problem == ""

    with_hub2(tmp_path, SECRET, steps)


def test_starttls_resets_the_session(tmp_path: Path):
    async def steps(address: tuple[str, int]) -> None:
        said = await say(
            address,
            {"code": 220},
            {"say": "EHLO hub1", "code": 250},
            {"say": "MAIL FROM:<alice@outside.test>", "code": 250},
            {"say": "RCPT TO:<bob@outside.test>", "code": 250},
            {"say": "STARTTLS", "code": 220, "secure": True},
            {"say": "RCPT TO:<bob@outside.test>", "code": 503},
            {"say": "MAIL FROM:<alice@outside.test>", "code": 503},
            {"say": "XSHADOW hub1 a-database", "code": 503},
        )
        assert said.problem == ""

    with_hub2(tmp_path, SECRET, steps)


def test_without_a_secret_neither_starttls_nor_auth_is_offered_to_other_servers(tmp_path: Path):
    async def steps(address: tuple[str, int]) -> None:
        said = await say(
            address,
            {"code": 220},
            {"say": "EHLO hub1", "code": 250, "lacks": "STARTTLS"},
            {"say": "EHLO hub1", "code": 250, "lacks": "AUTH"},
            {"say": plain("hub1", ""), "code": 502, "enhanced": "5.5.1"},
        )
        assert said.problem == ""

    with_hub2(tmp_path, None, steps)


@pytest.mark.parametrize(
    ("name", "secret", "known"),
    [
        ("hub1", SECRET, True),
        ("hub3", OTHER_SECRET, True),
        ("hub1", OTHER_SECRET, False),
        ("hub3", SECRET, False),
        ("hub1", "a guess", False),
        ("hub1", None, False),
    ],
)
def test_the_smtp_client_authenticates_with_the_secret_of_the_pair(
    tmp_path: Path, name: str, secret: str | None, known: bool
):
    async def steps(address: tuple[str, int]) -> None:
        dialogue = SmtpDialogue(address, name, 5.0, secret)
        await dialogue.open()
        assert ("XSHADOW" in dialogue.keywords) is known
        await dialogue.quit()

    with_hub2(tmp_path, SECRET, steps)
