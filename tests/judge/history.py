"""Builds histories by hand: each method of `History` adds all the events of one action, such as a whole transaction."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.history import events as ev
from conformance.history.dialects import PROFILE_1
from conformance.history.values import Digest, Operation
from conformance.topology import Topology

SENDERS = ("outside", "submission")
KEYWORDS = {
    "frontend": ("PIPELINING", "ENHANCEDSTATUSCODES"),
    "transport": ("PIPELINING", "ENHANCEDSTATUSCODES", "XSHADOWREQUEST", "XSHADOW"),
    "delivery": ("PIPELINING", "ENHANCEDSTATUSCODES"),
    "smtp": ("PIPELINING",),
    "lmtp": ("PIPELINING",),
}


def sha(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass(slots=True)
class Mail:
    """A message of the history; `name` is the scenario's name of it, such as `m`."""

    name: str
    to: tuple[str, ...] = ("bob@corp.test",)
    sender: str = "alice@outside.test"
    message_id: str | None = ""
    date: str | None = "Tue, 1 Jan 2030 00:00:00 +0000"
    eight_bit: bool = False

    def digest(self, *, altered: bool = False, new_body: bool = False) -> Digest:
        """Return the digest of its content: with other header fields if `altered`, with another body too if `new_body`."""
        new_body |= altered and self.eight_bit
        return Digest(
            eight_bit=self.eight_bit and not altered,
            size=300, sha256=sha(self.name), body_sha256=sha(self.name, new_body), stable_sha256=sha(self.name, altered),
            message_id=f"{self.name}@x" if self.message_id == "" else self.message_id, date=self.date,
        )  # fmt: skip


@dataclass(slots=True)
class OpenSession:
    """A session that is open, and the transaction in it that waits for its final reply."""

    name: str
    client: str
    server: str
    listener: str
    mail: str | None = None
    recipients: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    sender: str = ""
    digest: Digest | None = None
    mail_operation: Operation | None = None


@dataclass(slots=True)
class History:
    """The events so far. Times are documented seconds; `t` is the time of the next event."""

    topology: Topology
    t: float = 0.0
    events: list[ev.AnyEvent] = field(default_factory=list)
    mails: dict[str, Mail] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=dict)
    keywords: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    harness: set[str] = field(default_factory=set)
    _open: list[OpenSession] = field(default_factory=list)
    _sessions: int = 0
    _attempts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: type[ev.Event], **fields: Any) -> ev.Event:
        event = kind(n=len(self.events), t=self.t, **fields)
        self.events.append(event)  # type: ignore[arg-type]
        return event

    def add_message(self, mail: Mail) -> None:
        self.mails[mail.name] = mail
        digest = mail.digest()
        self.add(ev.MessageMade, message=f"{mail.name}#1", message_id=digest.message_id, sender=mail.sender,
                 recipients=mail.to, digest=digest)  # fmt: skip

    def database(self, server: str) -> str:
        return self.databases.get(server, f"db-{server}")

    def is_sink(self, party: str) -> bool:
        return party not in self.topology.by_name

    def listener(self, client: str, server: str) -> str:
        if self.is_sink(server):
            return "lmtp" if server.endswith("-store") else "smtp"
        return "frontend" if client == "outside" else "transport"

    def connect(self, client: str, server: str, listener: str | None = None, *, greet: bool = True) -> OpenSession:
        """Open a session, and greet as far as EHLO."""
        listener_name = listener or self.listener(client, server)
        self._sessions += 1
        one = OpenSession(f"s{self._sessions}", client, server, listener_name)
        self._open.append(one)
        self.add(ev.Connected, session=one.name, client=client, server=server, listener=listener_name)
        if greet:
            self.reply_to(one, "GREETING", 220, "ready")
            keywords = self.keywords.get((server, listener_name), KEYWORDS[listener_name])
            self.say(
                one, f"{'LHLO' if listener_name in ('lmtp', 'delivery') else 'EHLO'} {client}", 250, server, *keywords
            )
        return one

    def session(self, client: str, server: str, listener: str | None = None) -> OpenSession:
        """Return the open session between two parties; open one if there is none."""
        return self._last_open(client, server) or self.connect(client, server, listener)

    def _last_open(self, client: str, server: str) -> OpenSession | None:
        """Return the session between two parties that was opened last and is open, None for none."""
        between = [one for one in self._open if (one.client, one.server) == (client, server)]
        return between[-1] if between else None

    def _first_open(self, client: str, server: str) -> OpenSession | None:
        """Return the session between two parties that was opened first and is still open, None for none."""
        return next((one for one in self._open if (one.client, one.server) == (client, server)), None)

    def say(self, one: OpenSession, line: str, code: int | None = None, *lines: str) -> None:
        """Add a command and, with a code, its reply; operations are those of the default dialect."""
        verb = line.split(" ")[0].upper() if line[:1].isalpha() else ""
        asked = PROFILE_1.parse_command(line)
        self.add(ev.Command, session=one.name, verb=verb, line=line, operation=asked)
        if verb == "MAIL":
            one.mail_operation = asked
        if line.endswith(" LAST"):  # RFC 3030: the reply to the last chunk is the final reply
            self.add(ev.Content, session=one.name, digest=Mail("chunks").digest())
            verb = "CONTENT"
        if code is not None:
            self.reply_to(
                one,
                verb or ev.NO_VERB,
                code,
                *lines,
                operation=PROFILE_1.parse_reply(asked, code, lines, content=False),
            )

    def reply_to(
        self, one: OpenSession, to: str, code: int, *lines: str, recipient: str | None = None,
        operation: Operation | None = None, malformed: str = "",
    ) -> None:  # fmt: skip
        texts = lines or ("",)
        enhanced = texts[0].split(" ")[0]
        known = enhanced if enhanced.count(".") == 2 and enhanced.replace(".", "").isdigit() else None
        self.add(ev.Reply, session=one.name, to=to, code=code, enhanced=known, lines=texts, recipient=recipient,
                 operation=operation, malformed=malformed)  # fmt: skip

    def transmit(
        self, client: str, server: str, name: str, *, listener: str | None = None, to: Sequence[str] = (),
        refused: Iterable[str] = (), deferred: Iterable[str] = (), exceeding: Iterable[str] = (), shadow: str = "", sender: str | None = None, digest: Digest | None = None,
        new: bool = True, mail_parameter: str = "", rcpt_parameter: str = "", chunked: bool = False, grouped: bool = False,
    ) -> None:  # fmt: skip
        """Add a transaction up to the final dot; `shadow` is a shadow id, `refused` recipients that get 550, `deferred` 450, `exceeding` 552.

        `grouped`: all commands are said before the first reply.
        """
        mail = self.mails.get(name)
        assert mail is not None or digest is not None, name
        one = self.connect(client, server, listener) if new else self.session(client, server, listener)
        tracked = bool(shadow) and self._of_2010(client, server)
        if shadow:
            verb = "XSHADOW" if tracked else "XSHADOWREQUEST"
            self.say(one, f"{verb} {client} {self.database(client)}", 250, f"2.0.0 {server} {self.database(server)}")
        one.sender = sender if sender is not None else mail.sender if mail else ""
        one.mail, one.digest = name, digest or (mail.digest() if mail else None)
        one.recipients, one.refused = tuple(to or (mail.to if mail else ())), tuple(refused)
        line = f"MAIL FROM:<{one.sender}> {mail_parameter}".rstrip()
        said: list[tuple[str, int, str]] = [(line + (f" XSHADOW={shadow}" if shadow else ""), 250, "2.1.0 ok")]
        said += [(f"RCPT TO:<{who}> {rcpt_parameter}".rstrip(), 250, "2.1.5 ok") for who in one.recipients]
        said += [(f"RCPT TO:<{who}>", 550, "5.1.1 no") for who in one.refused]
        said += [(f"RCPT TO:<{who}>", 450, "4.2.0 later") for who in deferred]
        said += [(f"RCPT TO:<{who}>", 552, "5.5.3 too many") for who in exceeding]
        said += [("DATA", 354, "go")] if not chunked else []
        for words, code, text in said:
            self.say(one, words, None if grouped else code, text)
        for words, code, text in said if grouped else ():
            self.reply_to(one, words.split(" ")[0], code, text)
        if chunked:
            self.add(ev.Command, session=one.name, verb="BDAT", line="BDAT 300 LAST")
        self.add(ev.Content, session=one.name, digest=one.digest)

    def _of_2010(self, *servers: str) -> bool:
        known = [self.topology.by_name[s] for s in servers if s in self.topology.by_name]
        return any(server.generation == "ex2010" for server in known)

    def final(
        self, client: str, server: str, code: int | None, text: str = "", *, taken: bool | None = None, first: bool = False
    ) -> None:  # fmt: skip
        """Add the final reply (none with code None), the deliveries of a sink, the attempt of a sender, and the end of the session.

        The session is the last of the two that was opened and is still open, or the first with `first`.
        """
        one = self._first_open(client, server) if first else self._last_open(client, server)
        assert one is not None
        assert one.digest is not None
        accepted = code is not None and code // 100 == 2
        if self.is_sink(server) and (accepted if taken is None else taken):
            for recipient in one.recipients:
                self.add(ev.Delivered, sink=server, giver=client, recipient=recipient, sender=one.sender,
                         digest=one.digest, session=one.name)  # fmt: skip
        words = text or {2: "2.6.0 queued", 4: "4.3.0 later", 5: "5.7.1 no"}.get((code or 0) // 100, "")
        if code is not None:
            stored = (
                PROFILE_1.parse_reply(one.mail_operation, code, (words,), content=True) if one.mail_operation else None
            )
            each = one.recipients if one.listener in ("lmtp", "delivery") else (None,)
            for recipient in each:
                self.reply_to(one, "CONTENT", code, words, recipient=recipient, operation=stored)
        if client in SENDERS or one.name in self.harness:
            self._attempt(one, code, words)
        if accepted and one.mail_operation and self._of_2010(client) and not self.is_sink(server):
            self.query(client, server, (), in_session=True)  # a 2010 sender asks before each QUIT
        self.close(one, by="client" if code is not None else "server", polite=code is not None)

    def _attempt(self, one: OpenSession, code: int | None, text: str) -> None:
        message = f"{one.mail}#1"
        self._attempts[message] = self._attempts.get(message, 0) + 1
        enhanced = text.split(" ")[0] if text[1:2] == "." else None
        self.add(ev.Attempt, message=message, attempt=self._attempts[message], client=one.client, server=one.server,
                 listener=one.listener, session=one.name, outcome="answered" if code else "lost", code=code,
                 enhanced=enhanced, text=text, accepted=one.recipients, refused=one.refused, dot_sent=True)  # fmt: skip

    def close(self, one: OpenSession, by: str = "client", *, polite: bool = True, how: str = "fin") -> None:
        if polite:
            self.say(one, "QUIT", 221, "2.0.0 bye")
        self.add(ev.Closed, session=one.name, by=by, how=how)
        self._open = [other for other in self._open if other is not one]

    def query(
        self, by: str, at: str, answer: Sequence[str] | str, *, in_session: bool = False, limit: int = 100, left: int = 0
    ) -> None:  # fmt: skip
        """Add an XQDISCARD and its reply: shadow ids, a refusal such as `550 5.7.1 no`, or none (`silence`)."""
        one = self.session(by, at) if in_session else self.connect(by, at, greet=answer != "silence")
        line = f"XQDISCARD {by} {limit}"
        if answer == "silence":
            self.say(one, line)
        elif isinstance(answer, str):
            code, _, text = answer.partition(" ")
            self.say(one, line, int(code), text)
        else:
            ids = [f"2.0.0 discard {shadow_id}" for shadow_id in answer]
            self.say(one, line, 250, f"2.0.0 database {self.database(at)}", *ids, f"2.0.0 end {left}")
        if not in_session:
            self.close(one, polite=answer != "silence")

    def query_twice(self, by: str, at: str, first: Sequence[str], second: Sequence[str]) -> None:
        """Add two XQDISCARD in two sessions, and then the replies to both: the shadow ids in each."""
        line = f"XQDISCARD {by} 100"
        sessions = [self.connect(by, at), self.connect(by, at)]
        for one in sessions:
            self.say(one, line)
        for one, shadow_ids in zip(sessions, (first, second), strict=True):
            ids = [f"2.0.0 discard {shadow_id}" for shadow_id in shadow_ids]
            texts = (f"2.0.0 database {self.database(at)}", *ids, "2.0.0 end 0")
            asked = PROFILE_1.parse_command(line)
            self.reply_to(
                one, "XQDISCARD", 250, *texts, operation=PROFILE_1.parse_reply(asked, 250, texts, content=False)
            )
        for one in sessions:
            self.close(one)

    def step(self, phase: str, path: str, verb: str, label: str | None = None, detail: str = "") -> None:
        self.add(ev.StepEvent, phase=phase, path=path, verb=verb, line=1, label=label, detail=detail)

    def inspected(self, node: str, queues: Sequence[Mapping[str, Any]], delivered_to: int = 0) -> None:
        """Add what `inspect` prints: queues of `{kind, next_hop, items: [m, ...]}`."""
        rows = []
        for queue in queues:
            items = []
            for item in queue["items"]:
                shown, _, recipients = item.partition(" for ")
                name, _, shadow = shown.partition(" as ")
                shown_item: dict[str, Any] = {"message_id": f"<{self.mails[name].digest().message_id}>"}
                shown_item |= {"shadow_id": shadow} if shadow else {}
                items.append(shown_item | ({"recipients": recipients.split(" & ")} if recipients else {}))
            rows.append({"kind": queue["kind"], "next_hop": queue.get("next-hop", ""), "items": items})
        self.add(ev.Inspected, node=node, state={"queues": rows, "delivered_to": delivered_to})
