"""Each check of the probe passes on a miniature server that obeys its clause, and notices one that breaks it."""

import asyncio
import re
import ssl

import pytest

from conformance.live_checks import LiveFinding, LiveOutcome
from conformance.probe.checks import CHECKS
from conformance.probe.end_of_data import SMUGGLED_SENDER, VARIANTS, content_of
from conformance.probe.run import probe
from conformance.probe.server import Server
from conformance.probe.sink import ProbeSink
from tests.probe.miniature import OFFERS, Miniature, serve

MISBEHAVIOURS: list[tuple[str, LiveOutcome, type[Miniature]]] = []
"""Check -> its outcome on a server that misbehaves in one way."""


def misbehaves(check: str, outcome: LiveOutcome = LiveOutcome.FAIL):
    """Return a decorator that enters a server into the table."""

    def enter(kind: type[Miniature]) -> type[Miniature]:
        MISBEHAVIOURS.append((check, outcome, kind))
        return kind

    return enter


WARN = LiveOutcome.WARN


def replying(verb: str, reply: str | None, *, only: str | None = None) -> type[Miniature]:
    """Return a server that answers a verb, or one line of it, with this reply; None: with silence."""

    async def handler(self: Miniature, argument: str) -> str | None:
        if only is None or argument == only:
            return reply
        return await getattr(super(kind, self), f"on_{verb}")(argument)

    kind = type(f"Replies{reply}To{verb}", (Miniature,), {f"on_{verb}": handler})
    return kind


def having(**fields: object) -> type[Miniature]:
    """Return a server with other attributes."""
    return type("-".join(map(str, fields.values())), (Miniature,), dict(fields))


def offering(*offers: str, without: str = "") -> type[Miniature]:
    """Return a server that announces more, or one extension less."""
    return having(offers=(*(o for o in OFFERS if o != without), *offers))


for name, kind in [
    ("greeting-code", having(greeting="250 mini.test ready")),
    ("greeting-names-the-host", having(greeting="220 *** ready")),
    ("ehlo-names-the-host", replying("ehlo", "250 ")),
    ("ehlo-names-the-host", replying("ehlo", "502 5.5.1 no")),
    ("ehlo-keywords-well-formed", offering("AUTH=PLAIN")),
    ("ehlo-address-literal", replying("ehlo", "501 not a name", only="[127.0.0.1]")),
    ("helo", replying("helo", "250-mini.test\r\n250 PIPELINING")),
    ("helo", replying("helo", "502 use EHLO")),
    ("unknown-verb", having(unknown=lambda self, verb: "250 2.0.0 ok")),
    ("malformed-mail", replying("mail", "250 2.1.0 ok", only="FROM:")),
    ("announced-commands-work", replying("help", "502 5.5.1 not implemented")),
    ("rset-resets", replying("rset", "250 2.0.0 ok", only="")),
    ("rset-resets", replying("rset", "220 2.0.0 ok")),
    ("noop-changes-nothing", replying("noop", "200 2.0.0 ok")),
    ("vrfy", replying("vrfy", "502 5.5.1 no")),
    ("vrfy-verifies", replying("vrfy", "250 2.1.5 <no-such-user@no-such-host.invalid>")),
    ("quit", replying("quit", "250 2.0.0 bye")),
    ("quit", replying("quit", "221 2.0.0 bye and stays")),
    ("null-reverse-path", replying("mail", "550 5.7.1 who are you", only="FROM:<>")),
    ("postmaster", replying("rcpt", "550 5.1.1 unknown", only="TO:<Postmaster>")),
    ("line-of-512-octets", having(max_line=500)),
    ("size-parameter", replying("mail", "501 5.5.4 no", only="FROM:<> SIZE=1")),
    ("8bitmime", replying("mail", "555 5.5.4 no", only="FROM:<> BODY=8BITMIME")),
    ("smtputf8", replying("mail", "555 5.5.4 no", only="FROM:<pröbe@probe.test> SMTPUTF8")),
    ("smtputf8-needs-8bitmime", offering(without="8BITMIME")),
    ("dsn", replying("mail", "250 2.1.0 ok", only="FROM:<> RET=HDRS RET=HDRS")),
    ("dsn", replying("mail", "555 5.5.4 no", only="FROM:<> RET=HDRS ENVID=probe")),
    ("binarymime-needs-chunking", having(offers=("BINARYMIME",))),
    ("auth-unknown-mechanism", replying("auth", "235 2.7.0 welcome", only="XPROBE")),
    ("auth-cancelled", replying("auth", "334 ")),
    ("bdat-malformed", replying("bdat", "250 2.0.0 ok", only="")),
    ("starttls", replying("starttls", "500 5.5.1 not recognized")),
    ("starttls-has-no-argument", replying("starttls", "500 5.5.1 no", only="now")),
    ("replies-well-formed", replying("noop", "250-ok\r\n251 ok")),
    ("replies-well-formed", replying("vrfy", "252 " + "x" * 510)),
    ("reply-codes-in-range", replying("vrfy", "652 2.1.5 try it")),
    ("one-reply-for-each-command", replying("vrfy", "252 2.1.5 try it\r\n252 2.1.5 try it")),
    ("enhanced-codes-everywhere", replying("vrfy", "252 try it")),
    ("enhanced-codes-agree", replying("vrfy", "252 5.1.5 try it")),
]:
    misbehaves(name)(kind)
for name, kind in [
    ("unknown-verb", having(unknown=lambda self, verb: "502 5.5.1 what")),
    ("unknown-parameter", replying("mail", "501 5.5.4 what", only="FROM:<> XPROBE=1")),
    ("arguments-where-none-are", replying("rset", "250 2.0.0 ok", only="now")),
    ("malformed-rcpt", replying("rcpt", "250 2.1.5 ok", only="TO:<>")),
    ("noop-ignores-its-argument", replying("noop", "501 5.5.4 no", only="probe")),
    ("help", replying("help", "502 5.5.1 no")),
    ("size-parameter", replying("mail", "250 2.1.0 ok", only="FROM:<> SIZE=100001")),
    ("8bitmime", replying("mail", "250 2.1.0 ok", only="FROM:<> BODY=9BITPROBE")),
    ("auth-unknown-mechanism", replying("auth", "535 5.7.8 no", only="XPROBE")),
]:
    misbehaves(name, WARN)(kind)


@misbehaves("ehlo-again-resets")
class EhloKeepsTheTransaction(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        sender = self.sender
        reply = await super().on_ehlo(name)
        self.sender = sender
        return reply


@misbehaves("refused-ehlo-changes-nothing")
class RefusedEhloResets(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        self.reset()
        return await super().on_ehlo(name)


@misbehaves("verbs-in-any-case")
class UpperCaseOnly(Miniature):
    async def dispatch(self, line: bytes) -> None:
        verb = line.partition(b" ")[0]
        await super().dispatch(line if verb == verb.upper() else b"X" + line)


@misbehaves("lf-ends-no-line")
class LfEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        return more


@misbehaves("cr-ends-no-line")
class CrEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\r\n", b"\r").replace(b"\r", b"\r\n")
        return more


@misbehaves("stays-after-unknown-verbs")
@misbehaves("closes-after-221-or-421-only")
class ClosesAtUnknownVerbs(Miniature):
    def unknown(self, verb: str) -> str:
        self.leaving = True
        return super().unknown(verb)


@misbehaves("closes-after-421")
class StaysAfter421(Miniature):
    def unknown(self, verb: str) -> str:
        return "421 4.7.0 mini.test too many errors"


@misbehaves("trailing-space", WARN)
class NoTrailingSpace(Miniature):
    async def dispatch(self, line: bytes) -> None:
        await super().dispatch(b"XSPACE" if line.endswith(b" ") else line)


@misbehaves("eight-bit-command", WARN)
class TakesAnyOctet(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return await super().on_mail(argument.encode("ascii", "replace").decode())


@misbehaves("unknown-parameter")
class IgnoresParameters(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return await super().on_mail(argument.partition(" ")[0])


@misbehaves("nul-in-a-command")
class NulEndsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        self.buffer = self.buffer.replace(b"\0", b"\r\n")
        return more


@misbehaves("over-long-line")
class SplitsLongLines(Miniature):
    async def line(self) -> bytes | None:
        line = await super().line()
        if line is None or len(line) <= 4096:
            return line
        self.buffer = line[4096:] + b"\r\n" + self.buffer
        return line[:4096]


@misbehaves("rcpt-needs-mail")
class RcptWithoutMail(Miniature):
    async def on_rcpt(self, argument: str) -> str | None:
        self.sender = self.sender or "<>"
        return await super().on_rcpt(argument)


@misbehaves("data-needs-rcpt")
@misbehaves("refused-group-sends-nothing")
class DataWithoutRcpt(Miniature):
    async def on_data(self, argument: str) -> str | None:
        self.recipients = self.recipients or ["<>"]
        return await super().on_data(argument)


@misbehaves("second-mail")
class SecondMailEndsTheTransaction(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        if self.sender is None:
            return await super().on_mail(argument)
        self.reset()
        return "503 5.5.1 from the beginning"


@misbehaves("noop-changes-nothing")
class NoopResets(Miniature):
    async def on_noop(self, argument: str) -> str | None:
        self.reset()
        return "250 2.0.0 ok"


@misbehaves("commands-before-ehlo", WARN)
class EhloFirst(Miniature):
    async def on_rset(self, argument: str) -> str | None:
        return await super().on_rset(argument) if self.greeted else "503 5.5.1 EHLO first"


@misbehaves("local-part-of-64-octets")
class ShortLocalParts(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        local = argument.partition("@")[0].partition("<")[2]
        return "501 5.1.7 too long" if len(local) > 60 else await super().on_mail(argument)


@misbehaves("path-of-256-octets")
class ShortPaths(Miniature):
    async def on_mail(self, argument: str) -> str | None:
        return "501 5.1.7 too long" if len(argument) > len("FROM:") + 255 else await super().on_mail(argument)


@misbehaves("a-hundred-recipients")
class FiftyRecipients(Miniature):
    async def on_rcpt(self, argument: str) -> str | None:
        return "452 4.5.3 too many" if len(self.recipients) == 50 else await super().on_rcpt(argument)


@misbehaves("pipelined-group")
class FlushesItsInput(Miniature):
    async def line(self) -> bytes | None:
        line = await super().line()
        self.buffer = b""
        return line


@misbehaves("commands-in-pieces")
class ReadIsALine(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        if not self.buffer.endswith(b"\n"):
            self.buffer += b"\r\n"
        return more


@misbehaves("replies-not-kept-back")
class KeepsRepliesBack(Miniature):
    async def write(self, reply: str) -> None:
        self.kept = getattr(self, "kept", "") + reply + "\r\n"
        # What may be in the middle of a group is answered with the next command that may not.
        if not reply.startswith(("250 2.1", "501 5.5.4", "503", "250 2.0.0 reset")) or self.alone:
            kept, self.kept = self.kept[:-2], ""
            await super().write(kept)

    async def dispatch(self, line: bytes) -> None:
        self.grouped = getattr(self, "grouped", False) or bool(self.buffer)
        self.alone = not self.grouped
        await super().dispatch(line)


class RunsItsChunks(Miniature):
    async def chunk(self, size: int) -> bytes:
        return await super().chunk(size) if self.recipients else b""


for name in ("bdat-without-transaction", "bdat-last-without-recipient", "bdat-and-rset"):
    misbehaves(name)(RunsItsChunks)


@misbehaves("bdat-of-no-octets")
class ClosesAfterAnEmptyChunk(Miniature):
    async def on_bdat(self, argument: str) -> str | None:
        self.leaving = argument == "0"
        return await super().on_bdat(argument)


@misbehaves("bdat-then-data")
class DataAfterBdat(Miniature):
    async def on_data(self, argument: str) -> str | None:
        self.chunks = None
        return await super().on_data(argument)


@misbehaves("starttls-not-offered-twice")
class OffersTlsInTls(Miniature):
    async def on_ehlo(self, name: str) -> str | None:
        self.secured = False
        return await super().on_ehlo(name)


@misbehaves("starttls-forgets")
class KeepsTheTransactionInTls(Miniature):
    def before_tls(self) -> None:
        self.buffer = b""


@misbehaves("starttls-injection")
class KeepsItsInputInTls(Miniature):
    def before_tls(self) -> None:
        self.reset()


@misbehaves("help")
@misbehaves("vrfy")
class Deaf(Miniature):
    async def on_help(self, argument: str) -> str | None:
        return None

    on_vrfy = on_help


@misbehaves("end-in-pieces")
class SeesAnEndInOneReadOnly(Miniature):
    async def fill(self) -> bool:
        more = await super().fill()
        if self.recipients and self.buffer in (b"\r\n", b"\r", b"\n", b".", b".\r"):
            self.buffer = b"x"
        return more

    async def content(self) -> bytes | None:
        while not (self.buffer.startswith(b".\r\n") or b"\r\n.\r\n" in self.buffer):
            self.buffer = b""
            if not await self.fill():
                return None
        return await super().content()


@misbehaves("transaction-behind-the-end")
class ForgetsWhatIsBehindTheEnd(Miniature):
    async def content(self) -> bytes | None:
        content = await super().content()
        self.buffer = b""
        return content


class Refuses(Miniature):
    """Refuses some contents, by `refuses`."""

    refuses = staticmethod(lambda content: True)

    def accept(self, content: bytes) -> str:
        return "554 5.6.0 no" if self.refuses(content) else super().accept(content)


for name, rule in {
    "message-accepted": lambda content: True,
    "text-line-of-1000-octets": lambda content: max(map(len, content.splitlines())) > 900,
    "content-of-64-k": lambda content: len(content) > 60000,
    "content-accepted": lambda content: b"\r\n.." in content,
}.items():
    misbehaves(name)(type(f"Refuses-{name}", (Refuses,), {"refuses": staticmethod(rule)}))


@misbehaves("size-enforced")
class TakesAnySize(Miniature):
    async def content(self) -> bytes | None:
        content = await super().content()
        return content[:90000] if content is not None else None


@misbehaves("bdat-last")
class TakesAChunkBehindTheLast(Miniature):
    async def on_bdat(self, argument: str) -> str | None:
        await super().on_bdat(argument)
        return "250 2.0.0 ok"


class EndsContentAt(Miniature):
    """Ends content at another sequence too."""

    end = b"\n.\n"

    async def content(self) -> bytes | None:
        content = await super().content()
        if content is None or self.end not in content:
            return content
        first, _, rest = content.partition(self.end)
        self.buffer = rest + b".\r\n" + self.buffer
        return first


for octets in (b"\n.\n", b"\r.\r", b"\r\n\0.\r\n", b"x.\r\n", b"\x85.\x85", b"\r\n \r\n"):
    misbehaves("message-ends-at-crlf-dot-crlf-only")(
        type(f"EndsContentAt{octets!r}", (EndsContentAt,), {"end": octets})
    )


@misbehaves("relays-one-message")
class PassesOnALoneDot(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        first, end, second = content.partition(b"\n.\n")
        super().deliver(first)
        if end:
            super().deliver(second.partition(b"DATA\r\n")[2], SMUGGLED_SENDER)


@misbehaves("arrives-once")
class DeliversTwice(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        super().deliver(content)
        super().deliver(content)


@misbehaves("arrives-once", LiveOutcome.INCONCLUSIVE)
class DeliversNothing(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        pass


@misbehaves("content-unchanged")
class KeepsStuffedDots(Miniature):
    def deliver(self, content: bytes, sender: str | None = None) -> None:
        super().deliver(content.replace(b"\r\n.", b"\r\n.."))


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
def test_a_server_that_obeys_passes_every_check(context: ssl.SSLContext, tls: bool):
    offers = tuple(offer for offer in OFFERS if offer != "STARTTLS")
    findings = probed(having(offers=offers) if tls else Miniature, context, tls=tls)
    assert [f"{f.check}: {f.sentence}" for f in findings if f.outcome in ("fail", "warn", "inconclusive")] == []
    passed = {finding.check for finding in findings if finding.outcome == LiveOutcome.PASS}
    unjudged = {finding.check for finding in findings} - passed
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


class ClosesAfter421(StaysAfter421):
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
    async def run() -> list[LiveFinding]:
        async with serve(Miniature, context) as address:
            return await probe(Server(address, 0.6), 20)

    findings = asyncio.run(run())
    assert Miniature.messages == []
    reasons = {finding.check: finding.sentence for finding in findings if "--rcpt" in finding.sentence}
    assert {"message-accepted", "size-enforced", "message-ends-at-crlf-dot-crlf-only", "arrives-once"} <= set(reasons)


def test_no_variant_has_the_end_of_content_in_it():
    contents = {v.name: content_of(v, "a@b.test", "mark") for v in VARIANTS.values() if not v.chunked}
    assert [name for name, (content,) in contents.items() if b"\r\n.\r\n" in content] == []
    assert all(VARIANTS[name].octets in content for name, (content,) in contents.items())
    assert len({(v.octets, v.chunked, v.cut) for v in VARIANTS.values()}) == len(VARIANTS) >= 40


@pytest.mark.long
def test_a_report_about_a_message_is_not_the_message(context: ssl.SSLContext):
    class Returns(Miniature):
        def deliver(self, content: bytes, sender: str | None = None) -> None:
            super().deliver(b"Subject: returned\r\n\r\n" + content, "")

    outcomes = {finding.check: finding.outcome for finding in probed(Returns, context)}
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
