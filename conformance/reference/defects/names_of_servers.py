"""Defects in comparing the names of servers: with regard to letter case, and by how they begin.

A server is configured under a name, and names itself in EHLO and in the shadow verbs. All of these may be in another letter case.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import re
from collections.abc import Collection
from functools import cached_property

from conformance.reference.config import Listener, NodeConfiguration, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.queue.delivery import CommandRefused, Redirection
from conformance.reference.receive.authentication import Rights
from conformance.reference.receive.verbs import FORBIDDEN, ShadowVerbs
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardNotification, Discards


class PeersAsWritten(NodeConfiguration):
    """Has the names of its peers in the letter case of the document; correct are lower case letters only."""

    @staticmethod
    def peer_spelling(name: str) -> str:
        """Return the name of a peer as the document has it; correct is lower case."""
        return name

    @cached_property
    def peers_by_name(self) -> dict[str, Peer]:
        """The peers by name in lower case, by which the other components look for them."""
        return {peer.name.casefold(): peer for peer in self.peers}


class KeepsNamesAsSaid(ShadowVerbs):
    """Goes by the name that a client says, which may differ from the configured one in letter case."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return the correct refusal of a shadow verb, or None (permitted), and leave the name in `words`, its arguments, as it was said.

        Correct is to replace that name with the configured one. `second_pattern` is the pattern of the second argument.
        """
        said = words[:1]
        refused = super().refusal(words, second_pattern)
        words[:1] = said
        return refused


class LooksUpPrimariesAsWritten(ShadowRedundancyManager):
    """Finds the configuration of a primary only under its name in the letter case of the configuration."""

    async def query_in_new_session(self, primary: str) -> str | None:
        """Query a primary in a session of its own; return the id of its queue database ("": not given), or None if that fails.

        Return None, without a session, if no peer is configured under exactly this name.
        """
        if all(peer.name != primary for peer in self.host.config.peers):
            return None
        return await super().query_in_new_session(primary)


@defect("asks-primaries-by-the-name-they-say", breaks="SR-MNT-03", slot="verbs",
        also={"manager": LooksUpPrimariesAsWritten, "configuration": PeersAsWritten})  # fmt: skip
class AsksPrimariesByTheNameTheySay(KeepsNamesAsSaid):
    """Keeps shadows under the name that the primary says, and finds no such server when it is to ask for discard status."""


@defect("notifies-by-the-name-as-written", breaks="SR-MNT-02", slot="verbs", also={"configuration": PeersAsWritten})
class NotifiesByTheNameAsWritten(KeepsNamesAsSaid):
    """Looks for discard notifications under the name that the asking server says: they are queued under the configured one."""


@defect("refuses-a-name-in-another-letter-case", breaks="SR-WIR-03", slot="verbs",
        needs_expectation="that a wrong name is refused is right, and no rule says which names are equal")  # fmt: skip
class RefusesANameInAnotherLetterCase(ShadowVerbs):
    """Refuses a shadow verb in which the client's name is in another letter case than in the configuration."""

    def refusal(self, words: list[str], second_pattern: re.Pattern[str]) -> str | None:
        """Return the correct refusal of a shadow verb, or None (permitted); refuse a name in another letter case than configured, too.

        `words` are the arguments, the first of them that name; `second_pattern` is the pattern of the second one.
        """
        said = words[:1]
        refused = super().refusal(words, second_pattern)
        return FORBIDDEN if refused is None and said != [self.session_state.peer.name] else refused  # type: ignore[union-attr]


@defect("redirects-by-the-name-as-written", breaks="SR-CRE-10", slot="redirection")
class RedirectsByTheNameAsWritten(Redirection):
    """Refuses Redirect-Message where its target is in another letter case than the server's own name."""

    async def redirect(self, target: str) -> dict[str, int]:
        """Drain the delivery queues to the server `target`, and return the correct numbers of messages.

        Raises CommandRefused also if `target` has a capital letter: the configured names have none.
        """
        if target != target.lower():
            raise CommandRefused(f"redirect-messages: {target!r} is not a server of this boundary")
        return await super().redirect(target)


@defect("greets-servers-by-the-name-as-written", breaks="SR-E10-02", slot="rights",
        also={"configuration": PeersAsWritten})  # fmt: skip
class GreetsServersByTheNameAsWritten(Rights):
    """Takes a server that greets in another letter case than configured for a stranger, to whom no shadow verb is offered."""

    def identify(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Return the peer that the client is, None if it is none, or names itself in another letter case than configured."""
        peer = super().identify(listener, hello, authenticated)
        return peer if peer is not None and peer.name == (authenticated or hello) else None


@defect("notifies-servers-that-begin-alike", breaks="SR-MNT-04", slot="discards")
class NotifiesServersThatBeginAlike(Discards):
    """Gives a server the notifications of every server whose name begins with its own: mbx1 those of mbx10."""

    def oldest_for_server(
        self, server: str, limit: int, excluded: Collection[int] = ()
    ) -> tuple[list[DiscardNotification], int]:
        """Return the oldest notifications for servers whose names begin with `server`, at most `limit`, and how many there are in all.

        Both leave out the row ids `excluded`. Correct are those for `server` only.
        """
        events = [
            event for event in self.all_notifications() if event.server.startswith(server) and event.id not in excluded
        ]
        return events[:limit], len(events)
