"""Each check of the probe passes on a miniature server that obeys its clause, and notices one that breaks it."""

import asyncio
import re
import ssl

import pytest

from conformance.live_checks import LiveFinding, LiveOutcome
from conformance.probe.checks import CHECKS
from conformance.probe.end_of_data import VARIANTS, content_of
from conformance.probe.run import probe
from conformance.probe.server import Server
from conformance.probe.sink import ProbeSink
from tests.probe import misbehaving_commands, misbehaving_contents  # noqa: F401  # enter their servers into the table
from tests.probe.miniature import OFFERS, Miniature, serve
from tests.probe.misbehaviours import MISBEHAVIOURS, having, offering


def probed(
    kind: type[Miniature], context: ssl.SSLContext, names: tuple[str, ...] = (), *, tls: bool = False
) -> list[LiveFinding]:
    """Probe a miniature with the checks of these names, all by default."""

    async def run() -> list[LiveFinding]:
        sink = ProbeSink()
        async with serve(kind, context, tls=tls, next_hop=sink) as address:
            return await probe(Server(address, 0.6, tls, "victor@probe.test", sink=sink), 20, names)

    return asyncio.run(run())


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_obeys_passes_every_check_that_it_gives_an_occasion_for(context: ssl.SSLContext, tls: bool):
    offers = tuple(offer for offer in OFFERS if offer != "STARTTLS")
    findings = probed(having(offers=offers) if tls else Miniature, context, tls=tls)
    assert [f"{f.check}: {f.sentence}" for f in findings if f.outcome in ("fail", "warn", "inconclusive")] == []
    passed = {finding.check for finding in findings if finding.outcome == LiveOutcome.PASS}
    unjudged = set(CHECKS) - passed
    starttls = {name for name in CHECKS if name.startswith("starttls")}
    assert unjudged == {"closes-after-421", "binarymime-needs-chunking"} | (starttls if tls else set())


@pytest.mark.long
@pytest.mark.parametrize(
    ("check", "outcome", "kind"),
    MISBEHAVIOURS,
    ids=[f"{check}-{number}" for number, (check, _, _) in enumerate(MISBEHAVIOURS)],
)
def test_a_server_that_misbehaves_in_one_way_is_noticed_by_the_check_about_it(
    check: str, outcome: LiveOutcome, kind: type[Miniature], context: ssl.SSLContext
):
    (finding,) = probed(kind, context, (check,))
    assert (finding.outcome, finding.check) == (outcome, check), finding.sentence


class ClosesAfter421(misbehaving_commands.StaysAfter421):
    def unknown(self, verb: str) -> str:
        self.leaving = True
        return super().unknown(verb)


@pytest.mark.parametrize(
    ("check", "kind"),
    [("closes-after-421", ClosesAfter421), ("binarymime-needs-chunking", offering("BINARYMIME"))],
)
def test_a_check_without_an_occasion_on_the_server_that_obeys_passes_on_another(
    check: str, kind: type[Miniature], context: ssl.SSLContext
):
    (finding,) = probed(kind, context, (check,))
    assert (finding.check, finding.outcome) == (check, LiveOutcome.PASS), finding.sentence


def test_every_check_has_a_server_that_fails_it_or_gets_its_warning():
    caught = {check for check, outcome, _ in MISBEHAVIOURS if outcome in (LiveOutcome.FAIL, LiveOutcome.WARN)}
    assert sorted(caught) == sorted(CHECKS)


def test_without_the_option_rcpt_no_mail_is_sent(context: ssl.SSLContext):
    class Notes(Miniature):
        contents = 0

        async def content(self) -> bytes | None:
            Notes.contents += 1
            return await super().content()

    async def run() -> list[LiveFinding]:
        async with serve(Notes, context) as address:
            return await probe(Server(address, 0.6), 20)

    findings = asyncio.run(run())
    assert (Notes.messages, Notes.contents) == ([], 0), "not even one that is refused"
    reasons = {finding.check: finding.sentence for finding in findings if "--rcpt" in finding.sentence}
    assert {"message-accepted", "size-enforced", "message-ends-at-crlf-dot-crlf-only", "arrives-once"} <= set(reasons)
    probed(Notes, context, ("message-accepted",))
    assert Notes.messages, "with it a message is sent"
    assert Notes.contents == len(Notes.messages)


def test_variants_differ_and_none_for_the_command_data_has_the_end_of_content_in_it() -> None:
    assert all(v.octets in b"".join(content_of(v, "a@b.test", "mark")) for v in VARIANTS.values())
    contents = {v.name: content_of(v, "a@b.test", "mark") for v in VARIANTS.values() if not v.chunked}
    assert len(contents) > 1
    assert [name for name, (content,) in contents.items() if b"\r\n.\r\n" in content] == []
    assert len({(v.octets, v.chunked, v.cut) for v in VARIANTS.values()}) == len(VARIANTS)


@pytest.mark.long
def test_a_report_about_a_message_is_not_the_message(context: ssl.SSLContext):
    returned: list[bytes] = []

    class Returns(Miniature):
        def deliver(self, content: bytes, sender: str | None = None) -> None:
            returned.append(content)
            super().deliver(b"Subject: returned\r\n\r\n" + content, "")

    outcomes = {finding.check: finding.outcome for finding in probed(Returns, context)}
    assert returned
    assert outcomes["relays-one-message"] == LiveOutcome.NOT_APPLICABLE
    assert outcomes["arrives-once"] == LiveOutcome.INCONCLUSIVE


class NeedsAuthentication(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return "530 5.7.0 authentication required"

    on_rcpt = on_data = on_mail

    async def on_bdat(self, argument: str) -> str | None:
        await super().on_bdat(argument)
        return "530 5.7.0 authentication required"


class Greylists(Miniature):
    async def on_rcpt(self, argument: str) -> str | None:
        reply = await super().on_rcpt(argument)
        self.recipients = []
        return "450 4.7.1 later" if reply is not None and reply.startswith("250") else reply


class TakesNoMailNow(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        reply = await super().on_mail(argument)
        self.sender = None
        return "452 4.3.1 no room" if reply is not None and reply.startswith("250") else reply


class Overloaded(Miniature):
    greeting = "421 4.3.2 mini.test too many sessions"

    async def run(self) -> None:
        await self.write(self.greeting)


@pytest.mark.parametrize("kind", [NeedsAuthentication, Greylists, TakesNoMailNow, Overloaded])
def test_a_server_that_may_refuse_is_blamed_for_nothing(kind: type[Miniature], context: ssl.SSLContext):
    findings = probed(kind, context)
    assert [f"{f.check}: {f.sentence}" for f in findings if f.outcome in ("fail", "warn", "inconclusive")] == []
    reasons = {finding.check: finding.sentence for finding in findings if finding.outcome == "not-applicable"}
    assert re.search("refused|greets", reasons["message-accepted"])
    assert re.search("refused|greets", reasons["a-hundred-recipients"])
