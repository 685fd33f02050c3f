"""Which requirements (rows of the catalogue) a failed check is blamed on.

A verdict lists rows; its failure is blamed on the first. An expectation with `requirements:` of its own names its rows
itself. For any other, the kind of violation orders the rows of its scenario: those that such a violation breaks come first,
in the scenario's order. Where none of them does, a fallback row may be put in front: the one that asks for what the
scenario takes for granted, such as the shadow copy that its own steps need. The *kind* of a violation is a word for what is
wrong, such as `missing` (`conformance.trace.finding`). *Claims* are the capabilities that the candidate claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.requirements.catalogue import catalogue
from conformance.trace.context import is_relay_only
from conformance.trace.finding import ViolationKind


@dataclass(frozen=True, slots=True)
class BlameRules:
    """Which rows the violations of one expectation verb are blamed on.

    Attributes:
        rows_by_kind: the rows that a violation of this kind breaks.
        explaining_kinds: kinds that say what was done instead of the right thing. A copy in the wrong place explains why there
            is none in the right one, and not the other way round, so it is listed before the failures that may follow from it.
        fallback_rows: the row to blame where the scenario has none for this kind; by whether all servers are of 2010.
    """

    rows_by_kind: Mapping[ViolationKind, frozenset[str]]
    explaining_kinds: frozenset[ViolationKind]
    fallback_rows: Mapping[ViolationKind, Mapping[bool, str]]

    def order_rows(self, kind: ViolationKind, rows: tuple[str, ...], *, all_2010: bool) -> tuple[str, ...]:
        """Return a scenario's `rows` with those in front that a violation of this kind breaks, else with the fallback row in front.

        Without either the rows stay as they are. The fallback row need not be one of `rows`. `all_2010`: all servers of the cell are
        of 2010.
        """
        broken = self.rows_by_kind.get(kind, frozenset())
        first = tuple(row for row in rows if row in broken)
        if not first and kind in self.fallback_rows:
            first = (self.fallback_rows[kind][all_2010],)
        return (*first, *(row for row in rows if row not in first))


def applicable_rows(requirements: tuple[str, ...], claims: frozenset[str]) -> tuple[str, ...]:
    """Return the rows, in their order, that bind a candidate with these claims.

    A row with the profile `relay` binds every mail transport. Any other is about shadow redundancy, and does not bind
    an ordinary relay. Where no row is left, all are returned, since a verdict without a row would say nothing: such a
    scenario should not apply to a relay (a test of the corpus detects that).
    """
    if not is_relay_only(claims):
        return requirements
    rows = (catalogue().get(requirement) for requirement in requirements)
    return tuple(row.id for row in rows if row is not None and row.profile == "relay") or requirements
