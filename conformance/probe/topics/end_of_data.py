"""The end of content: nothing but CRLF . CRLF, at the server's door and behind it, and the content that reaches the sink.

A *variant* is a piece of content, such as LF . LF, that a server could take for the end (`conformance.probe.end_of_data`). The
sink takes what the server passes on. `server.accepted` has the names of the messages that were acknowledged, and
`server.mark(name)` the left part of such a message's Message-ID.

A check returns `passed`, `failed` (a MUST is violated) or `warned` (a SHOULD is not followed), each with a sentence; its
docstring says what must hold. `conformance.probe.run` makes findings of what it raises: *not applicable* of NotApplicable (the
server gives it no occasion), *inconclusive* of ServerSilent, ServerClosed and OSError (a session cannot be opened or go on), and
a *failure* of Unanswered (a command has no reply).
"""

from conformance.probe.checks import Judgement, check, failed, passed
from conformance.probe.end_of_data import SMUGGLED_SENDER, VARIANTS, send_variants
from conformance.probe.server import NotApplicable, Server
from conformance.probe.session import ServerSilent
from conformance.probe.sink import ProbeSink
from conformance.probe.topics.content import BODY

_ARRIVAL = 3.0
"""Seconds in which what was accepted reaches the sink."""


@check("message-ends-at-crlf-dot-crlf-only", "RFC 5321 4.1.1.4", "RL-SMG-01")
async def message_ends_at_crlf_dot_crlf_only(server: Server) -> Judgement:
    """Of each variant the server makes one message, or refuses it: it has one reply, or none if the server closes the connection.

    Adds the names of the accepted variants to `server.accepted`. Not applicable where none is accepted.
    """
    server.require_recipient()
    results = await send_variants(server)
    server.accepted |= {name for name, replies in results.items() if replies and replies[0].positive}
    if split := {name: replies for name, replies in results.items() if len(replies) > 1}:
        name, replies = next(iter(split.items()))
        return failed(
            f"the message ends early at {', '.join(split)}; replies to {name}: {'; '.join(map(str, replies))}"
        )
    if not server.accepted & set(results):
        seen = "; ".join(sorted({str(replies[0]) for replies in results.values() if replies})) or "closed connections"
        raise NotApplicable(f"none of {len(results)} messages was accepted: {seen}")
    return passed(f"{len(results)} variants are one message each, or refused")


@check("relays-one-message", "RFC 5321 4.1.1.4", "RL-SMG-01", last=True)
async def relays_one_message(server: Server) -> Judgement:
    """What is passed on of each variant is one message for a receiver that ends content at CRLF . CRLF only.

    Waits up to 3 seconds for the accepted variants; those that have not reached the sink by then are not judged.
    """
    sink = _require_sink(server)
    variants = {name for name in server.accepted if name in VARIANTS}
    await sink.wait_until(lambda: {*variants} <= _arrived_names(server), _ARRIVAL)
    smuggled = [message for message in sink.messages if message.sender == SMUGGLED_SENDER]
    if smuggled:
        names = sorted(
            name for name in VARIANTS if any(f"smuggled-{server.mark(name)}@".encode() in m.content for m in smuggled)
        )
        return failed(f"a second message reaches the sink, smuggled by {', '.join(names)}")
    if not (arrived := variants & _arrived_names(server)):
        raise NotApplicable("none of the accepted messages with a variant has reached the sink")
    return passed(
        f"{len(arrived)} of {len(variants)} accepted messages with a variant have reached the sink as one message each"
    )


@check("arrives-once", "RFC 5321 4.2.5", "RL-ACK-04", last=True)
async def arrives_once(server: Server) -> Judgement:
    """An acknowledged plain message reaches the sink, and once. Raises ServerSilent if one has not come within 3 seconds."""
    sink = _require_sink(server)
    plain = {"plain-one", "plain-two"} & server.accepted
    if not plain:
        raise NotApplicable("no plain message was accepted")
    if not await sink.wait_until(lambda: plain <= _arrived_names(server), _ARRIVAL):
        raise ServerSilent(
            f"of {len(plain)} plain messages {len(plain & _arrived_names(server))} have reached the sink in {_ARRIVAL:g} s"
        )
    counts = {name: sum(_has_mark(m.content, server, name) for m in sink.messages) for name in plain}
    if several := {name: count for name, count in counts.items() if count > 1}:
        return failed(f"acknowledged once, and in the sink several times: {several}")
    return passed(f"{len(plain)} acknowledged messages have reached the sink, each once")


@check("content-unchanged", "RFC 5321 4.5.2", "RL-CNT-01", last=True)
async def content_unchanged(server: Server) -> Judgement:
    """The body that reaches the sink is the one that was sent, dots and long lines included.

    Waits up to 3 seconds for the accepted messages; those that have not reached the sink by then are not judged.
    """
    sink = _require_sink(server)
    names = {"dots", "dots-in-a-chunk"} & server.accepted
    await sink.wait_until(lambda: names <= _arrived_names(server), _ARRIVAL)
    bodies = {
        name: message.content.partition(b"\r\n\r\n")[2]
        for name in sorted(names)
        for message in sink.messages
        if _has_mark(message.content, server, name)
    }
    if not bodies:
        raise NotApplicable("no message with dots at the beginning of lines has reached the sink")
    for name, body in bodies.items():
        if body != BODY:
            at = next(
                (n for n, (a, b) in enumerate(zip(body, BODY, strict=False)) if a != b), min(len(body), len(BODY))
            )
            return failed(
                f"the body of {name!r} differs from octet {at}: sent {BODY[at:][:30]!r}, arrived {body[at:][:30]!r}"
            )
    return passed(f"the body of {len(bodies)} messages with dots at the beginning of lines has arrived as it was sent")


def _require_sink(server: Server) -> ProbeSink:
    """Return the sink. Raises NotApplicable without one, and without a permitted recipient."""
    server.require_recipient()
    if server.sink is None:
        raise NotApplicable("no mail comes back to the probe: --sink names the port at which it would listen")
    return server.sink


def _has_mark(content: bytes, server: Server, name: str) -> bool:
    """Whether a content is that of the message of this name; a report about it has the mark behind its own header."""
    return f"Message-ID: <{server.mark(name)}@probe.test>".encode() in content.partition(b"\r\n\r\n")[0]


def _arrived_names(server: Server) -> set[str]:
    """Return the names of the accepted messages that have reached the sink."""
    assert server.sink is not None
    return {name for name in server.accepted if any(_has_mark(m.content, server, name) for m in server.sink.messages)}
