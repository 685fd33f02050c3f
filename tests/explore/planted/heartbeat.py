"""Planted mistakes in heartbeat and promotion."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow.manager import ShadowRedundancyManager
from tests.explore.planted.mistake import Notes, plant


class CountsLostQueries(ShadowRedundancyManager):
    """Base of mistakes that follow from queries whose session was lost, or which were refused, after the session had been opened."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.lost_queries: Counter[str] = Counter()

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        try:
            return await super().query_discards(primary, dialogue)
        except SessionLost:
            self.lost_queries[primary] += 1
            self.query_was_lost(primary)
            raise

    def query_was_lost(self, primary: str) -> None:
        """Do what the mistake does when a query is lost: nothing here."""


@plant(
    "new-database-is-overlooked-after-a-lost-query",
    about="heartbeat and promotion",
    scenario="outbound-is-held-until-the-next-hop-has-it",
    pair=("mbx2>mbx1 XQDISCARD 2 after drop", "mbx1>outside MAIL 11 mbx1 renewed"),
    slot="manager",
)
class NewDatabaseIsOverlookedAfterALostQuery(CountsLostQueries):
    """Does not promote the shadows of a primary with a new queue database if a query to it was lost and later ones were answered."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._answered_since: set[str] = set()

    def promote_if_new_database(self, primary: str, database: str) -> None:
        if primary in self._answered_since:
            return
        if self.lost_queries[primary] and not self.host.shadows.rows_of_other_databases(primary, database):
            self._answered_since.add(primary)
        super().promote_if_new_database(primary, database)


@plant(
    "restarted-holder-does-not-promote",
    about="promotion",
    scenario="heartbeat-as-often-as-configured",
    pair=("mbx2>mbx1 XQDISCARD 1 mbx2 killed", "mbx2>mbx1 XQDISCARD 2 mbx1 away"),
    slot="manager",
)
class RestartedHolderDoesNotPromote(ShadowRedundancyManager):
    """After a restart takes a failed heartbeat to a primary, whose shadows it held before, for contact, and never promotes them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._held_before: frozenset[str] = frozenset()

    def start(self) -> None:
        self._held_before = frozenset(self.host.shadows.primaries())
        super().start()

    def heartbeat_failed(self, primary: str) -> None:
        if primary in self._held_before:
            self.host.shadows.set_contact(primary, self.host.now())
        super().heartbeat_failed(primary)


_DEFAULT_FREQUENCY_S = 120.0
"""The documented default of ShadowHeartbeatFrequency, in documented seconds."""


@plant(
    "second-restart-returns-to-the-default-heartbeat",
    about="reload and kill",
    scenario="heartbeat-as-often-as-configured[frequency=30s]",
    pair=("mbx2>mbx1 XQDISCARD 1 mbx2 killed", "mbx2>mbx1 XQDISCARD 2 mbx2 killed"),
    slot="manager",
)
class SecondRestartReturnsToTheDefaultHeartbeat(ShadowRedundancyManager):
    """After the second restart with shadows asks at the default interval, whatever a reload has set."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._restarts = 0

    def start(self) -> None:
        if self.host.shadows.primaries():
            self._restarts = Notes(self.host).add("restart")
        super().start()

    def next_heartbeat_at(self, primary: str) -> float:
        if self._restarts < 2:
            return super().next_heartbeat_at(primary)
        return self.watched[primary].last_query + _DEFAULT_FREQUENCY_S / self.host.config.scale
