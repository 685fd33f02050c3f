"""What a results site shows, computed from the rows of an aggregation's tables: servers, versions, standings, scores.

A *standing* is the verdict of one version of a server on one requirement, over all runs. The newest version of a server is
that of the latest run that judged it. A *server* is a candidate, a *row* of the catalogue a requirement, and a *profile* the
requirements that bind every server that claims a capability. `pages` and its templates call this.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from conformance.report.cell_pages import file_stem
from conformance.report.statement import Badge
from conformance.requirements.catalogue import Catalogue, Requirement
from conformance.requirements.profiles import PROFILES, rows_of_profile
from conformance.verdicts import Outcome

Row = dict[str, Any]
"""A row of a table, by column."""

_GOOD, _BAD, _OPEN = "#0a6449", "#a83a00", "#735500"
"""Colours of badges: nothing is open, a row is violated, a row is not decided."""


@dataclass(frozen=True, slots=True)
class Server:
    """A candidate of the runs. `versions` has the newest first; `claims` are the capabilities that it claimed last."""

    name: str
    kind: str
    claims: frozenset[str]
    versions: tuple[str, ...]

    @property
    def version(self) -> str:
        """The newest version."""
        return self.versions[0]

    @property
    def stem(self) -> str:
        """The name of the server's files on the site, without suffix."""
        return file_stem(self.name)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The names of the profiles that it claims, in the order of `PROFILES`."""
        return tuple(profile for profile in PROFILES if profile in self.claims)


@dataclass(frozen=True, slots=True)
class Score:
    """How many of the `total` rows of a profile the newest versions of all `servers` that claim it pass."""

    profile: str
    about: str
    passed: int
    total: int
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerScore:
    """How the newest version of a server stands on the rows of one profile; `undecided` rows are neither passed nor violated.

    Rows that are not applicable to the server are not counted.
    """

    passed: int
    violated: int
    undecided: int

    @property
    def total(self) -> int:
        """How many rows are applicable to the server."""
        return self.passed + self.violated + self.undecided

    def badge(self, profile: str) -> Badge:
        """Return the badge of the server for the profile of this name; its colour says whether a row is violated or undecided."""
        text = f"{self.passed} of {self.total} rows pass" + (f", {self.violated} fail" if self.violated else "")
        colour = _BAD if self.violated else _OPEN if self.undecided else _GOOD
        return Badge(text, colour, label=f"{profile} conformance")


@dataclass(frozen=True)
class Results:
    """Everything that the pages show. `runs` has the oldest first, `changes` (rows of `row_changes`) the newest first."""

    catalogue: Catalogue
    runs: tuple[Row, ...]
    servers: tuple[Server, ...]
    standings: Mapping[tuple[str, str, str], Row]
    """(server, version, requirement) -> row of the table `standings`."""
    failures: Mapping[tuple[str, str, str], list[Row]]
    """(server, version, requirement) -> rows of the table `failures`, the newest run first."""
    changes: tuple[Row, ...]

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """The rows of the catalogue that any server was judged on, in the catalogue's order."""
        judged = {requirement for _, _, requirement in self.standings}
        return tuple(row for row in self.catalogue.requirements if row.id in judged)

    def outcome(self, server: Server, requirement: str) -> Outcome | None:
        """Return the standing of a server's newest version on a requirement; None where no run judged it."""
        standing = self.standings.get((server.name, server.version, requirement))
        return Outcome(standing["outcome"]) if standing is not None else None

    def score(self, profile: str) -> Score:
        """Return how many rows all servers that claim the profile pass.

        A row counts when at least one of them passes it, and each other one passes it too or the row is not applicable to it. So a
        server that violates a row, was not judged on it, or could not be, keeps the row from counting.
        """
        servers = [server for server in self.servers if profile in server.claims]
        rows = rows_of_profile(profile, self.catalogue)
        passed = sum(
            Outcome.PASS in outcomes and outcomes <= {Outcome.PASS, Outcome.NOT_APPLICABLE}
            for outcomes in ({self.outcome(server, row.id) for server in servers} for row in rows)
        )
        return Score(
            profile=profile,
            about=PROFILES[profile],
            passed=passed,
            total=len(rows),
            servers=tuple(server.name for server in servers),
        )

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """The scores of the profiles that at least one server claims."""
        return tuple(score for profile in PROFILES if (score := self.score(profile)).servers)

    def server_score(self, server: Server, profile: str) -> ServerScore:
        """Return how the newest version of one server stands on the rows of a profile; a row that no run judged is undecided."""
        outcomes = [self.outcome(server, row.id) for row in rows_of_profile(profile, self.catalogue)]
        passed, violated = outcomes.count(Outcome.PASS), outcomes.count(Outcome.FAIL)
        undecided = len(outcomes) - passed - violated - outcomes.count(Outcome.NOT_APPLICABLE)
        return ServerScore(passed=passed, violated=violated, undecided=undecided)


def read_results(tables: Mapping[str, list[Row]], catalogue: Catalogue) -> Results:
    """Return the results from the rows of the tables `runs`, `candidates`, `standings`, `row_changes` and `failures`.

    `tables` has the rows of each table by its name.
    """
    order = {row["run"]: index for index, row in enumerate(tables["runs"])}
    version_of = {(row["run"], row["candidate"]): row["version"] for row in tables["candidates"]}
    standings = {(row["candidate"], row["version"], row["requirement"]): row for row in tables["standings"]}
    failures: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in sorted(tables["failures"], key=lambda row: order[row["run"]], reverse=True):
        version = version_of.get((row["run"], row["candidate"]), "unknown")
        failures[row["candidate"], version, row["requirement"]].append(row)
    return Results(
        catalogue=catalogue,
        runs=tuple(tables["runs"]),
        servers=_servers(tables["candidates"], standings.values(), order),
        standings=standings,
        failures=failures,
        changes=tuple(
            sorted(tables["row_changes"], key=lambda row: (row["started"], row["run"], row["candidate"]), reverse=True)
        ),
    )


def _servers(candidates: list[Row], standings: Any, order: Mapping[str, int]) -> tuple[Server, ...]:
    """Return the candidates that have a standing, sorted by name; `order` has the place of each run, the oldest first.

    `candidates` and `standings` are rows of these tables. Kind and claims are those of the candidate's latest run; one that is
    missing in `candidates` has the kind '' and claims nothing. Versions are ordered by the latest run that judged each.
    """
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for row in standings:
        versions = judged[row["candidate"]]
        versions[row["version"]] = max(versions.get(row["version"], 0), order[row["run"]])
    records = {row["candidate"]: row for row in sorted(candidates, key=lambda row: order[row["run"]])}
    return tuple(
        Server(
            name=name,
            kind=records[name]["kind"] if name in records else "",
            claims=frozenset(records[name]["claims"].split()) if name in records else frozenset(),
            versions=tuple(sorted(versions, key=versions.__getitem__, reverse=True)),
        )
        for name, versions in sorted(judged.items())
    )
