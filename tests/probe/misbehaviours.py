"""The table of miniature servers that misbehave in one way each, and its servers whose fault is a single reply or announcement.

`Miniature` is a mail server that obeys every clause that the probe judges. A check must find the fault of each server that the
table has for it. `misbehaving_commands` and `misbehaving_contents` enter the servers that need code of their own. `replying`,
`having` and `offering` return a server that differs from `Miniature` in what they are given.
"""

from conformance.live_checks import LiveOutcome
from tests.probe.miniature import OFFERS, Miniature

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
