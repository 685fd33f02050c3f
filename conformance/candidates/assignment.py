"""Which candidate plays which server of a topology, as one `--candidate` says it; and which hosts candidates may be on.

A candidate is a server under test, as its description (a YAML file) says how it is run. Its *dialect* are names that it uses for
the verbs of shadow redundancy; its *own timers* are those that it has when none are configured. Its *kind* is a way to run it, and
a *feature* is something that only some kinds allow, such as a clock that jumps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.clocks import CLOCKS, ClockName, default_clock
from conformance.history.dialects import Dialect
from conformance.loopback import is_loopback
from conformance.scenarios.own_timers import OwnTimers


@dataclass(frozen=True, slots=True)
class Assignment:
    """The candidate of each server: those in `servers` by the server's name, `default` for all others."""

    default: Candidate
    servers: dict[str, Candidate] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The name in node ids and reports: `postfix`, or `mbx1:mine+mbx2:reference` where servers differ."""
        if not self.servers:
            return self.default.identity
        return "+".join(f"{server}:{candidate.identity}" for server, candidate in sorted(self.servers.items()))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates in `servers`, one for each server, so that one may come repeatedly, and the default last."""
        return (*self.servers.values(), self.default)

    def own_timers(self, servers: Iterable[str]) -> OwnTimers | None:
        """Return the timers that all candidates of these servers have when none are configured.

        None where a description does not state them, or where candidates differ.
        """
        timers = {candidate.own_timers for candidate in self.candidates_for(servers)}
        return timers.pop() if len(timers) == 1 else None

    def candidates_for(self, servers: Iterable[str]) -> tuple[Candidate, ...]:
        """Return the candidates of these servers, each once, in the order of the servers."""
        candidates: list[Candidate] = []
        for server in servers:
            if (candidate := self.candidate_for(server)) not in candidates:
                candidates.append(candidate)
        return tuple(candidates)

    def candidate_for(self, server: str) -> Candidate:
        """Return the candidate that plays a server."""
        return self.servers.get(server, self.default)

    def dialect_between(self, client: str, server: str) -> Dialect:
        """Return the dialect for reading what `client` says to `server`: the server's, completed by the client's."""
        return self.candidate_for(server).resolved_dialect.combined_with(self.candidate_for(client).resolved_dialect)

    def unavailable(self, servers: tuple[str, ...]) -> tuple[str, ...]:
        """Return `candidate: what is missing on this machine` for each candidate of these servers that cannot be run."""
        missing = {one.identity: one.check_availability().missing for one in self.candidates_for(servers)}
        return tuple(f"{name}: {reason}" for name, reason in missing.items() if reason)

    def with_feature(self, feature: str) -> "Assignment":
        """Return the assignment with its default changed to a kind that has the feature, if the description allows it.

        Only the default of a mixed assignment is changed, since the command line names all other candidates with their kinds. An
        assignment of one candidate to all servers is returned as it is.
        """
        return replace(self, default=self.default.with_feature(feature)) if self.servers else self


def read_assignment(word: str, shipped: Path) -> Assignment:
    """Read one `--candidate`: a candidate for all servers, or `SERVER=CANDIDATE,...` and the reference for the others.

    `shipped` is the folder of the descriptions that come with the harness. Raises CandidateError.
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


def choose_clock(assignments: Sequence[Assignment], name: ClockName | None) -> tuple[ClockName, tuple[Assignment, ...]]:
    """Return the clock of a run, and the assignments as they are run under it.

    Without a `name` the candidates' features decide. A clock that jumps needs a feature, such as a node in this process: where
    servers have different candidates, their default is changed to a kind that has it (`with_feature`). Raises CandidateError where
    a candidate lacks it even so.
    """
    clock = name or default_clock(
        candidate.features for assignment in assignments for candidate in assignment.candidates
    )
    needed = CLOCKS[clock].needs
    if not needed:
        return clock, tuple(assignments)
    changed = tuple(assignment.with_feature(needed) for assignment in assignments)
    candidates = [candidate for assignment in changed for candidate in assignment.candidates]
    if without := [candidate.identity for candidate in candidates if needed not in candidate.features]:
        raise CandidateError(f"--clock {clock}: {without[0]} {CLOCKS[clock].refused}")
    return clock, changed


def check_hosts(
    candidates: Iterable[Candidate], allowed: Iterable[str], permission: str = "--allow-hosts {host}"
) -> None:
    """Raise CandidateError when a description has an address that is neither loopback nor one of the `allowed` hosts.

    `permission` is what the error says the user must write to permit the host `{host}`.
    """
    allowed_hosts = frozenset(allowed)
    for candidate in candidates:
        for key, address in candidate.kind_definition.external_addresses(candidate).items():
            if not is_loopback(address.host) and address.host not in allowed_hosts:
                raise CandidateError(  # `key` is the address's place in the description
                    f"--candidate {candidate.name}: {key} is {address.host}, which is not this machine; "
                    f"with {permission.format(host=address.host)} the harness connects to it"
                )
