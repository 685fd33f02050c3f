"""Thirty deliberate mistakes to show what the harness finds. `--defect NAME` switches one on; each replaces a part of the server."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import delivery
from client import Client
from config import Config
from primary import Primary
from session import Refusal, Session
from shadow import Shadow
from store import Store

DEFECTS: dict[str, tuple[str, str, Callable[[], None]]] = {}  # the requirement violated, what it does, what makes it so


def _mistake(row: str, what: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def enter(make: Callable[[], None]) -> Callable[[], None]:
        DEFECTS[make.__name__.replace("_", "-")] = (row, what, make)
        return make

    return enter


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around`, which is called with the former function and its arguments."""
    former = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: around(former, *args, **kwargs))


def switch_on(name: str) -> None:
    """Switch a mistake on; the empty name switches none on. Raises SystemExit for an unknown name."""
    if name not in ("", *DEFECTS):
        raise SystemExit(f"--defect {name}: there are {', '.join(DEFECTS)}")
    if name:
        DEFECTS[name][2]()


@_mistake("SR-CRE-01", "answers 250 and has the copy made afterwards")
def acknowledges_first() -> None:
    async def accept(self: Primary, mail: Any, deadline: float) -> bool:
        mail.shadow_id, mail.copied = self._store.new_id(), False
        self._store.add(mail)
        self.adopt(mail)
        return True

    Primary.accept = accept


@_mistake("SR-CRE-01", "has no copy made of anything")
def makes_no_copies() -> None:
    Primary._make_copy = lambda self, message, deadline: asyncio.sleep(0, True)


@_mistake("SR-CRE-07", "has no copy made of what a mailbox submits")
def no_copy_of_submissions() -> None:
    async def decide(former: Any, self: Session, mail: Any) -> Any:
        mail.submitted = self._peer.get("role") == "submission"
        return await former(self, mail)

    async def make_copy(former: Any, self: Primary, message: Any, deadline: float | None) -> Any:
        return getattr(message, "submitted", False) or await former(self, message, deadline)

    _wrap(Session, "_decide", decide)
    _wrap(Primary, "_make_copy", make_copy)


def _copies_are(change: Callable[..., Any]) -> None:
    def transmit(former: Any, self: Client, message: Any, recipients: list[str], extra: str = "") -> Any:
        return former(self, *(change(message, recipients) if extra else (message, recipients)), extra)

    _wrap(Client, "transmit", transmit)


@_mistake("SR-CRE-06", "drops the last line of a copy")
def copy_changes_content() -> None:
    _copies_are(lambda message, to: (replace(message, content=message.content[:-2].rpartition(b"\n")[0] + b"\n"), to))


@_mistake("SR-CRE-06", "leaves out the last of several recipients of a copy")
def copy_lacks_a_recipient() -> None:
    _copies_are(lambda message, to: (message, to[:-1] or to))


@_mistake("SR-CRE-04", "acknowledges a copy before it is on disk")
def copies_are_in_memory() -> None:
    def add(former: Any, self: Store, message: Any) -> None:
        if message.primary_name:
            asyncio.get_running_loop().call_later(3, former, self, message)
        else:
            former(self, message)

    _wrap(Store, "add", add)


@_mistake("SR-CRE-11", "delivers a copy as soon as it has it")
def delivers_copies() -> None:
    def keep(former: Any, self: Shadow, copy: Any) -> None:
        former(self, copy)
        own = replace(copy, shadow_id=self._store.new_id(), primary_name="", recipients=dict(copy.recipients))
        self._store.add(own)
        self._node.start(self._node.delivery.deliver(own))

    _wrap(Shadow, "keep", keep)


@_mistake("SR-CRE-09", "has a copy made by two servers")
def two_copies() -> None:
    async def copy_to(former: Any, self: Primary, peer: Any, message: Any) -> bool:
        return await former(self, peer, message) and len(message.holders) > 1

    async def make_copy(former: Any, self: Primary, message: Any, deadline: float | None) -> bool:
        return await former(self, message, deadline) or bool(message.holders)

    _wrap(Primary, "_copy_to", copy_to)
    _wrap(Primary, "_make_copy", make_copy)


@_mistake("SR-BND-01", "has copies made by servers outside of its boundary first, and makes them for such servers")
def copies_anywhere() -> None:
    def keeps_copies(peer: Any) -> bool:
        return peer.get("role") == "mailbox" and peer["generation"] != "ex2010"

    def attempts(former: Any, self: Primary) -> Any:
        config = self._node.config
        outside = [peer for peer in config.peers.values() if keeps_copies(peer) and not config.shadows(peer)]
        return [*outside, *former(self)]

    _wrap(Primary, "_attempts", attempts)
    Session._may_shadow = property(
        lambda self: self._node.config["ShadowRedundancyEnabled"] and keeps_copies(self._peer)
    )


def _reads(parameter: str, *, as_if: bool) -> None:
    _wrap(Config, "__getitem__", lambda former, self, one: as_if if one == parameter else former(self, one))


@_mistake("SR-ENA-02", "has copies made though ShadowRedundancyEnabled is false")
def off_is_on() -> None:
    _reads("ShadowRedundancyEnabled", as_if=True)


@_mistake("SR-ENA-03", "answers 451 when no copy could be made, whatever is configured")
def rejects_though_optional() -> None:
    _reads("RejectMessageOnShadowFailure", as_if=True)


@_mistake("SR-ENA-04", "answers 250 when no copy could be made, whatever is configured")
def accepts_though_mandatory() -> None:
    _reads("RejectMessageOnShadowFailure", as_if=False)


@_mistake("SR-PRF-01", "tries members of its own site first")
def prefers_local() -> None:
    def attempts(former: Any, self: Primary) -> Any:
        return sorted(former(self), key=lambda peer: peer["site"] != self._node.config.site)

    _wrap(Primary, "_attempts", attempts)


@_mistake("SR-PRF-04", "tries one server only")
def one_attempt() -> None:
    _wrap(Primary, "_attempts", lambda former, self: former(self)[:1])


@_mistake("SR-WIR-01", "offers XSHADOWREQUEST on the frontend")
def offers_on_frontend() -> None:
    def greeted(former: Any, self: Session, hello: str, name: str) -> list[str]:
        lines = former(self, hello, name)
        return [lines[0], "250-XSHADOWREQUEST", *lines[1:]] if self._listener == "frontend" and lines[1:] else lines

    _wrap(Session, "_greeted", greeted)


@_mistake("SR-WIR-02", "answers XQDISCARD with the notifications of the server that is named in it")
def answers_anybody() -> None:
    def shadow_verb(former: Any, self: Session, verb: str, words: list[str]) -> Any:
        try:
            return former(self, verb, words)
        except Refusal as refusal:
            if verb != "XQDISCARD" or "550" not in str(refusal):
                raise
            lines, self._in_flight = self._node.primary.notifications(words[0], int(words[1]))
            return lines

    _wrap(Session, "_shadow_verb", shadow_verb)


@_mistake("SR-WIR-03", "answers malformed arguments with 503 and closes")
def malformed_is_503() -> None:
    def shadow_verb(former: Any, self: Session, verb: str, words: list[str]) -> Any:
        try:
            return former(self, verb, words)
        except Refusal as refusal:
            if "501" in str(refusal):
                self.end("503 5.5.1 what?")
            raise

    _wrap(Session, "_shadow_verb", shadow_verb)


@_mistake("SR-WIR-04", "puts all notifications into one reply")
def ignores_max() -> None:
    _wrap(Primary, "notifications", lambda former, self, server, most: former(self, server, 10**9))


@_mistake("SR-WIR-05", "forgets a notification as soon as it is in a reply")
def forgets_at_once() -> None:
    def notifications(former: Any, self: Primary, server: str, most: int) -> Any:
        lines, numbers = former(self, server, most)
        self.forget(numbers)
        return lines, numbers

    _wrap(Primary, "notifications", notifications)


@_mistake("SR-WIR-06", "lets all copies of a primary go at any notification")
def one_discard_for_all() -> None:
    def let_go(former: Any, self: Shadow, primary: str, database: str, gone: set[str]) -> None:
        former(self, primary, database, {copy.shadow_id for copy in self.copies_for(primary)} if gone else gone)

    _wrap(Shadow, "_let_go", let_go)


@_mistake("SR-MNT-01", "queues the notification when it accepts a message")
def notifies_at_acceptance() -> None:
    _wrap(Primary, "adopt", lambda former, self, message: (self._store.notify(message), former(self, message)))


@_mistake("SR-MNT-03", "opens no session to ask for notifications")
def never_asks() -> None:
    async def heartbeat(self: Shadow, primary: str) -> bool:
        self._asked[primary] = time.time()
        return True

    Shadow._heartbeat = heartbeat


@_mistake("SR-MNT-02", "does not ask in sessions that it opens for other mail")
def asks_alone_only() -> None:
    def transmit(former: Any, self: Client, *args: Any) -> Any:
        self.carries_mail = True
        return former(self, *args)

    async def ask(former: Any, self: Shadow, client: Client, primary: str) -> None:
        if not hasattr(client, "carries_mail"):
            await former(self, client, primary)

    _wrap(Client, "transmit", transmit)
    _wrap(Shadow, "_ask", ask)


@_mistake("SR-MNT-05", "forgets its notifications when it ends")
def notifications_in_memory() -> None:
    def opened(former: Any, self: Store, directory: Any) -> None:
        former(self, directory)
        self.run("DELETE FROM discard")

    _wrap(Store, "__init__", opened)


@_mistake("SR-MNT-09", "never takes over what a silent primary had")
def never_takes_over() -> None:
    Store.last_contact = lambda self, primary: time.time()


@_mistake("SR-MNT-10", "takes copies over at the first heartbeat that fails")
def takes_over_early() -> None:
    async def heartbeat(former: Any, self: Shadow, primary: str) -> bool:
        answered = await former(self, primary)
        self._take_over([] if answered else self.copies_for(primary))
        return bool(answered)

    _wrap(Shadow, "_heartbeat", heartbeat)


@_mistake("SR-MNT-11", "does not notice that a primary has lost its queue")
def blind_to_new_database() -> None:
    Shadow.saw_database = lambda self, primary, database: None


@_mistake("SR-MNT-12", "never deletes notifications for which no server asks")
def keeps_notifications() -> None:
    Primary._expire = lambda self: None


@_mistake("SR-MNT-07", "queues the notification when the first next hop has the message")
def first_fork_releases() -> None:
    _wrap(Store, "done", lambda former, self, message, *rest: (self.notify(message), former(self, message, *rest)))


@_mistake("SR-DUP-02", "takes two messages with one Message-ID for one, whatever their Date")
def remembers_message_ids_only() -> None:
    delivery._key = lambda message: message.internet_id and (message.internet_id, 0.0)
