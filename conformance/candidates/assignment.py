"""An assignment: which candidate plays which server of a topology. Its addresses are this machine's, or those that the user
allows by name.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.fields import is_loopback
from conformance.candidates.lookup import find_candidate
from conformance.history.dialects import Dialect
from conformance.scenarios.own_timers import OwnTimers


@dataclass(frozen=True, slots=True)
class Assignment:
    """One candidate for all servers, or some servers' own beside a default."""

    default: Candidate
    servers: dict[str, Candidate] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The name in node ids and reports: `reference`, or `mbx1=mine,mbx2=reference`."""
        if not self.servers:
            return self.default.identity
        return "+".join(f"{server}:{candidate.identity}" for server, candidate in sorted(self.servers.items()))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Everybody in it, the default last."""
        return (*self.servers.values(), self.default)

    def own_timers(self, servers: Iterable[str]) -> OwnTimers | None:
        """Return what all who play one of the servers do when nobody sets their timers; None where they do not say, or do
        not agree."""
        timers = {candidate.own_timers for candidate in self.candidates_for(servers)}
        return timers.pop() if len(timers) == 1 else None

    def candidates_for(self, servers: Iterable[str]) -> tuple[Candidate, ...]:
        """Return all who play one of the servers, each once. The default is among them only where it plays one."""
        found: list[Candidate] = []
        for server in servers:
            if (candidate := self.candidate_for(server)) not in found:
                found.append(candidate)
        return tuple(found)

    def candidate_for(self, server: str) -> Candidate:
        """Return who plays a server."""
        return self.servers.get(server, self.default)

    def dialect_between(self, client: str, server: str) -> Dialect:
        """Return how what a party says to a server is read: as that server spells it, or else as the party itself does."""
        return self.candidate_for(server).resolved_dialect.combined_with(self.candidate_for(client).resolved_dialect)

    def unavailable(self, servers: tuple[str, ...]) -> tuple[str, ...]:
        """Return `candidate: what is missing on this machine` for everybody who plays one of the servers."""
        looked = {player.identity: player.check_availability().missing for player in self.candidates_for(servers)}
        return tuple(f"{name}: {missing}" for name, missing in looked.items() if missing)

    def with_feature(self, needed: str) -> "Assignment":
        """Return the assignment with what the command line did not name, the default of a mixed assignment, of a kind that has this."""
        return replace(self, default=self.default.with_feature(needed)) if self.servers else self


def read_assignment(word: str, shipped: Path) -> Assignment:
    """Read one `--candidate`: a candidate, or `SERVER=CANDIDATE,...` with the reference for everybody else.

    Raises CandidateError.
    """
    if "=" not in word:
        return Assignment(find_candidate(word, shipped))
    servers: dict[str, Candidate] = {}
    for part in word.split(","):
        server, equals, name = part.partition("=")
        if not equals or not server or not name:
            raise CandidateError(f"--candidate {word}: write SERVER=CANDIDATE,SERVER=CANDIDATE")
        servers[server] = find_candidate(name, shipped)
    return Assignment(find_candidate("reference", shipped), servers)


def check_hosts(candidates: Iterable[Candidate], allowed: Iterable[str]) -> None:
    """Raise CandidateError for the first address of a candidate that is neither loopback nor allowed."""
    known = frozenset(allowed)
    for candidate in candidates:
        for use, address in candidate.kind_definition.external_addresses(candidate).items():
            if not is_loopback(address.host) and address.host not in known:
                raise CandidateError(
                    f"--candidate {candidate.name}: {use} is {address.host}, which is not this machine; "
                    f"with --allow-hosts {address.host} the harness connects to it"
                )
