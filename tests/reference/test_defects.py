"""Defects of the reference make the mistake that they state, and no other."""

import asyncio
import heapq
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.reference.components import ComponentSets
from conformance.reference.config import ConfigurationError, Transport, parse_configuration
from conformance.reference.defects import defect as declaration
from conformance.reference.defects.catalogue import DEFECTS, apply_by_name
from conformance.reference.defects.defect import defect
from conformance.reference.host import Host
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.receive.acceptance import MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import SessionLost
from tests.reference.hosts import HandClock, add_primary, configured, open_session, run_ready_tasks, run_with_host
from tests.reference.test_config import document


@pytest.mark.parametrize(
    ("name", "slot", "message"),
    [("never-shadows", "creation", "the name is taken"), ("new", "none", "there is no slot none")],
)
def test_a_defect_needs_a_new_name_and_an_existing_slot(
    name: str, slot: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(declaration, "DEFECTS", dict(DEFECTS))
    with pytest.raises(ValueError, match=f"^defect {name}: {message}$"):
        defect(name, breaks="SR-CRE-01", slot=slot)(Delivery)
    with pytest.raises(ValueError, match="^defect new: there is no slot none$"):
        defect("new", breaks="SR-CRE-01", slot="delivery", also={"none": Delivery})(Delivery)
    assert declaration.DEFECTS == DEFECTS
    defect("new", breaks="SR-CRE-01", slot="delivery")(Delivery)
    assert declaration.DEFECTS["new"].classes == {"delivery": Delivery}


@pytest.mark.parametrize("name", ["redirects-what-is-not-deferred", "retries-what-it-redirected"])
def test_what_was_deferred_before_a_redirection_is_retried_in_order_after_it(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    async def steps(host: Host, clock: HandClock) -> None:
        delivery: Any = host.delivery
        message, began = add_primary(host), clock.now()
        for seconds in (30, 20, 10):
            heapq.heappush(delivery._deferred, (clock.now() + seconds, seconds, message, seconds))

        async def redirect_all(self: Delivery, target: NextHop) -> None:
            delivery._deferred = [(clock.now() + 15, 15, message, 15)]  # what was deferred meanwhile
            delivery._alarm.cancel()

        monkeypatch.setattr(Delivery, "redirect_all", redirect_all)
        await delivery.redirect_all(NextHop("redirection", "mbx2"))
        assert delivery._alarm.due == clock.now() + 10
        retried: list[int] = []
        monkeypatch.setattr(delivery, "_queue_attempts", lambda message, seconds: retried.append(seconds))
        for due in (10, 15, 20, 30):
            clock.at = began + due
            delivery._retry()
            assert retried[-1] == due
        assert len(retried) == 4

    run_with_host(tmp_path, steps, components=apply_by_name(ComponentSets(), name).for_generation("ex2016"))


def test_a_changed_acknowledgement_delay_is_read_while_replies_are_withheld_for_the_default(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host)
        deadline = asyncio.get_running_loop().time() + 60
        acceptance: Any = host.acceptance
        withheld = [asyncio.create_task(acceptance.wait_until_delivered(message, deadline)) for _ in range(2)]
        await run_ready_tasks()
        assert not any(task.done() for task in withheld)
        assert acceptance.host.transport.MaxAcknowledgementDelay == 30
        host.config = configured("hubs-one-site", MaxAcknowledgementDelay=7)
        for task in withheld:  # the first that began ends first
            assert acceptance.host.transport.MaxAcknowledgementDelay == 7
            task.cancel()
            await asyncio.wait([task])
        assert acceptance.host.transport.MaxAcknowledgementDelay == 7

    components = apply_by_name(ComponentSets(), "hub-takes-no-delay-for-the-default").for_generation("ex2010")
    run_with_host(tmp_path, steps, "hubs-one-site", components=components, MaxAcknowledgementDelay=0)


def test_refusals_in_a_lost_session_are_those_of_the_recipients_as_they_were_received(tmp_path: Path):
    refusals = [Reply(550, "5.1.1", f"unknown {number}") for number in range(2)]

    async def transmit(envelope: Envelope, content: bytes, extra: str) -> dict[Recipient, Reply]:
        assert [one.orcpt for one in envelope.recipients] == ["", "", ""], "the defect altered them"
        lost = SessionLost("the connection has ended")
        lost.refused = dict(zip(envelope.recipients, refusals, strict=False))  # the third has no reply yet
        raise lost

    async def steps(host: Host, clock: HandClock) -> None:
        message: Message = add_primary(host, "victor@outside.test", "walter@outside.test", "xena@outside.test")
        recipients = tuple(replace(one, orcpt=f"rfc822;{one.address}") for one in message.envelope.recipients)
        message = replace(message, envelope=message.envelope.for_recipients(recipients))
        finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        attempt = DeliveryAttempt(message, recipients, NextHop("outside", "outside"), finished)
        with pytest.raises(SessionLost) as raised:
            await host.outbound.transmit(attempt, "outside", SimpleNamespace(transmit=transmit, keywords={}))  # type: ignore[arg-type]
        assert raised.value.refused == dict(zip(recipients[:2], refusals, strict=True))

    components = apply_by_name(ComponentSets(), "forwards-without-the-original-recipient").for_generation("ex2016")
    run_with_host(tmp_path, steps, components=components)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"Subject: x\r\n\r\nhalf", [b"Subject: x\r\n\r\n"]),
        (b"Subj", [b""]),
        ((b"x" * 80 + b"\r\n") * 20 + b".\r\n", []),
    ],
    ids=["two-lines", "no-whole-line", "refused-for-its-size"],
)
def test_half_a_message_is_its_whole_lines_and_nothing_of_a_refused_one(
    tmp_path: Path, content: bytes, kept: list[bytes]
):
    components = apply_by_name(ComponentSets(), "keeps-half-a-message").for_generation("ex2016")
    receiver: type[Receiver] = components.receiver

    async def steps(host: Host, clock: HandClock) -> None:
        accepted: list[bytes] = []

        async def accept(envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
            accepted.append(content)
            return Reply(250, "2.0.0", "taken")

        host.acceptance.accept = accept  # type: ignore[method-assign]
        async with open_session(host, "frontend", receiver) as (reader, writer):
            writer.write(b"EHLO me\r\nMAIL FROM:<a@outside.test>\r\nRCPT TO:<victor@outside.test>\r\nDATA\r\n")
            await reader.readuntil(b"354 ")
            await reader.readline()
            writer.write(content)
            if not kept:
                assert (await reader.readline())[:3] == b"552"
            await writer.drain()
        await asyncio.sleep(0)
        assert accepted == kept

    run_with_host(tmp_path, steps, components=components, MaxMessageSize=1024)


@pytest.mark.parametrize(
    "name", ["ignores-a-changed-size", "holds-for-one-day-by-default", "refuses-wrong-values-once"]
)
@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, None),
        ({"transport": None}, "transport"),
        ({"transport": []}, "transport"),
        ({"listeners": None}, "listeners"),
        ({"listeners": {"frontend": 1}}, "listeners"),
        ({"scale": "two"}, "scale"),
        ({"name": 1}, "name"),
    ],
)
def test_a_wrong_configuration_file_is_refused_by_name(name: str, changes: dict[str, Any], refused: str | None):
    kind = apply_by_name(ComponentSets(), name).configuration
    given = {**document(), "contract": 2, "scale": 1, "revision": 2, **changes}
    if refused is None:
        parse_configuration(json.dumps(given), kind)
    else:
        with pytest.raises(ConfigurationError, match=rf"^{refused}\b"):
            parse_configuration(json.dumps(given), kind)


@pytest.mark.parametrize(
    "name", ["ignores-a-changed-size", "holds-for-one-day-by-default", "refuses-wrong-values-once"]
)
@pytest.mark.parametrize("missing", ["transport", "listeners", "data_dir", None])
def test_what_a_configuration_file_leaves_out_is_a_default_or_refused(name: str, missing: str | None):
    kind = apply_by_name(ComponentSets(), name).configuration
    given: Any = {key: value for key, value in document().items() if key != missing}
    given |= {"contract": 2, "revision": 2}
    if missing == "transport":
        other = {"SafetyNetHoldTime": 86400} if name == "holds-for-one-day-by-default" else {}
        assert parse_configuration(json.dumps(given), kind).transport.model_dump() == Transport().model_dump() | other
    else:
        with pytest.raises(ConfigurationError, match=rf"^{missing}\b" if missing else "valid dictionary"):
            parse_configuration(json.dumps(given if missing else [given]), kind)


def test_a_path_is_measured_in_octets(tmp_path: Path):
    components = apply_by_name(ComponentSets(), "refuses-paths-of-256-octets").for_generation("ex2016")
    receiver: type[Receiver] = components.receiver

    async def steps(host: Host, clock: HandClock) -> None:
        limits = host.config.listeners.frontend
        assert limits is not None
        session = receiver(host, "frontend", limits, set())
        for local, code in (("a" * 240, "250"), ("a" * 241, "553"), ("ä" * 121, "553")):
            assert session.recipient_reply(f"{local}@outside.test")[:3] == code

    run_with_host(tmp_path, steps, components=components)
