"""The lean server is aiosmtpd's own in all but its cost: whatever that sets up, it sets up the same."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP

from conformance.lean_smtp import Lean, LeanSMTP
from conformance.run.clock import Clock, run_with_clock


class Hooks(Lean):
    async def handle_EHLO(self, server: SMTP, session: Any, envelope: Any, name: str, lines: list[str]) -> list[str]:
        session.host_name = name
        return lines

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        return "250 taken"


class NoHooks(Lean):
    pass


class LeanLMTP(LeanSMTP, LMTP):
    pass


def authenticator(*given: object) -> None:
    raise NotImplementedError


def made_by(kind: Callable[..., SMTP], handler: object, options: dict[str, Any]) -> dict[str, Any]:
    """Return what a server holds, made comparable: methods by their names, what every server has of its own by its kind."""

    async def make() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        server = kind(handler, loop=loop, hostname="a.test", ident="i", data_size_limit=7, timeout=5.0, **options)
        return {
            **vars(server),
            "_auth_methods": server._auth_methods,
        }  # which the lean one makes when it is asked for it

    held = asyncio.run(make())
    held.pop("_auth_without", None)
    return {name: _comparable(value) for name, value in held.items()}


def _comparable(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_comparable(each) for each in value)
    if isinstance(value, (str, int, float, bool, type(None), ssl.SSLContext)):
        return value
    return getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize("handler", [Hooks(), NoHooks()], ids=["hooks", "no-hooks"])
@pytest.mark.parametrize(
    "options",
    [{}, {"authenticator": authenticator, "auth_exclude_mechanism": ["LOGIN"]}, {"tls_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}],
    ids=["plain", "auth", "tls"],
)  # fmt: skip
@pytest.mark.parametrize(("lean", "own"), [(LeanSMTP, SMTP), (LeanLMTP, LMTP)], ids=["smtp", "lmtp"])
def test_it_holds_what_its_model_holds(
    lean: type[SMTP], own: type[SMTP], handler: object, options: dict[str, Any]
) -> None:
    assert made_by(lean, handler, options) == made_by(own, handler, options)


@pytest.mark.parametrize("lean", [True, False], ids=["lean", "its model"])
def test_a_client_is_left_after_so_much_silence_whatever_it_said_before(lean: bool) -> None:
    """120 s, 200 s after the greeting, 300 s of patience: 620 s in all."""

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"hostname": "a.test", "ident": "i", "timeout": 300.0, "data_size_limit": None}
        kind = LeanSMTP if lean else SMTP
        server = await loop.create_server(lambda: kind(Hooks(), loop=loop, **options), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.readline()
        for wait in (120, 200):
            await clock.sleep(wait)
            writer.write(b"NOOP\r\n")
            await reader.readline()
        assert await reader.read() == b""
        at = clock.elapsed()
        writer.close()
        server.close()
        return at

    assert run_with_clock(main, "virtual") == 620
