"""Which of a scenario's rows a violated expectation is about.

An expectation with `requirements:` of its own says so itself. For the others the verb and the kind of violation decide:
of the scenario's rows, those that this kind of violation speaks of come first, in the scenario's order. Where a
scenario takes something for granted that another row asks for (a shadow that its own steps need), that row is blamed.
"""

from collections.abc import Mapping
from typing import Literal

Kind = Literal["", "missing", "partly", "surplus", "elsewhere", "near", "far", "early", "late", "other"]
"""What was wrong: not there at all, there for some messages only, more of it than asked for, in another place, too few or
too many in the server's own site or in others, before or after its time, another one of the same class."""

_MADE = frozenset(
    {
        "SR-CRE-01", "SR-CRE-03", "SR-CRE-07", "SR-CRE-10", "SR-ENA-01", "SR-BND-03", "SR-BND-05", "SR-TMO-03",
        "SR-E10-02", "SR-E10-03", "SR-IOP-02",
    }
)  # fmt: skip
_PLACED = frozenset(
    {
        "SR-BND-01", "SR-BND-02", "SR-BND-05", "SR-PRF-01", "SR-PRF-02", "SR-PRF-03", "SR-PRF-04", "SR-PRF-05",
        "SR-PRF-06", "SR-E10-10",
    }
)  # fmt: skip
_NOT_BEFORE = frozenset(
    {
        "SR-CRE-11", "SR-MNT-10", "SR-MNT-13", "SR-MNT-15", "SR-OUT-06", "SR-BND-04", "SR-BND-05", "SR-E10-09", "SR-E10-11",
        "SR-E10-23",
    }
)  # fmt: skip
_TAKEN_OVER = frozenset(
    {
        "SR-MNT-09", "SR-MNT-11", "SR-OUT-01", "SR-OUT-02", "SR-OUT-05", "SR-OUT-07", "SR-OUT-08", "SR-CRE-04",
        "SR-E10-08", "SR-E10-20", "SR-E10-21", "SR-E10-22",
    }
)  # fmt: skip
_RELEASED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-02", "SR-MNT-03", "SR-MNT-04", "SR-MNT-05", "SR-MNT-12", "SR-MNT-14", "SR-TMO-05",
        "SR-E10-04", "SR-E10-05", "SR-E10-07", "SR-E10-23",
    }
)  # fmt: skip
_NOT_RELEASED = frozenset(
    {
        "SR-CRE-08", "SR-MNT-01", "SR-MNT-04", "SR-MNT-07", "SR-MNT-08", "SR-MNT-12", "SR-MNT-14", "SR-BND-05",
        "SR-E10-01", "SR-E10-04", "SR-E10-13",
    }
)  # fmt: skip
_REFUSED = frozenset({"SR-ENA-04", "SR-TMO-02", "SR-PRF-07", "SR-BND-08", "RL-CNT-02"})
_ACCEPTED = frozenset(
    {
        "SR-ENA-03", "SR-ENA-05", "SR-ENA-06", "SR-TMO-01", "SR-TMO-04", "SR-CRE-05", "SR-BND-08", "SR-PRF-07",
        "SR-E10-15", "SR-E10-16", "RL-ACK-04",
    }
)  # fmt: skip

ABOUT: Mapping[tuple[str, Kind], frozenset[str]] = {
    ("shadow", "missing"): _MADE,
    ("shadow", "late"): _MADE,
    ("shadow", "elsewhere"): _PLACED,
    ("shadow", "surplus"): frozenset({"SR-CRE-09", "SR-E10-03"}),
    ("same-content", ""): frozenset({"SR-CRE-06", "RL-CNT-01"}),
    ("shadow", "early"): frozenset({"SR-CRE-02"}),
    ("shadow-attempts", "elsewhere"): _PLACED,
    ("shadow-attempts", "near"): frozenset({"SR-PRF-05"}),
    ("shadow-attempts", "far"): frozenset({"SR-PRF-04"}),
    ("discarded", "missing"): _RELEASED,
    ("not-discarded", ""): _NOT_RELEASED,
    ("not-discarded", "early"): frozenset({"SR-MNT-01", "SR-E10-04"}),
    ("queried", "missing"): frozenset({"SR-MNT-02", "SR-MNT-03", "SR-E10-05", "SR-E10-06"}),
    ("promoted", "early"): _NOT_BEFORE,
    ("promoted", "late"): _TAKEN_OVER,
    ("promoted", "missing"): _TAKEN_OVER,
    ("promoted", "partly"): frozenset({"SR-OUT-08"}),
    ("report", "missing"): frozenset({"RL-DSN-01"}),
    ("report", "surplus"): frozenset({"RL-DSN-01", "RL-DSN-02"}),
    ("not-promoted", ""): _NOT_BEFORE,
    ("not-promoted", "elsewhere"): frozenset({"SR-E10-10"}),
    ("reply", "other"): frozenset({"SR-ENA-04", "SR-BND-08"}),
    ("reply", "missing"): _REFUSED,
    ("reply", "surplus"): _ACCEPTED,
    ("mailbox", "surplus"): frozenset({"SR-ENA-04", "SR-DUP-01", "SR-DUP-03", "SR-DUP-04", "SR-OUT-03", "SR-OUT-06"}),
}
"""(verb, kind of violation) -> the rows that it speaks of. Of `reply`: a message that had to be refused and was not
(`missing`: the refusal), or was and need not have been (`surplus`)."""

EXPLAINS: frozenset[tuple[str, Kind]] = frozenset(
    {
        ("shadow", "elsewhere"), ("shadow", "early"), ("no-shadow", "surplus"), ("shadow-attempts", "elsewhere"),
        ("shadow-attempts", "near"), ("shadow-attempts", "far"), ("reply", "missing"), ("not-promoted", "elsewhere"),
    }
)  # fmt: skip
"""Violations that say what was done instead of the right thing. A violated row that theirs presupposes may follow from
them, and not the other way round: a copy in the wrong place is missing at the right one."""

TAKEN_FOR_GRANTED: Mapping[tuple[str, Kind], Mapping[bool, str]] = {
    ("shadow", "missing"): {False: "SR-CRE-01", True: "SR-E10-03"},
    ("shadow", "late"): {False: "SR-CRE-01", True: "SR-E10-03"},
}
"""The row to blame where none of the scenario's rows is about it; True: for a server of the 2010 generation."""


def about(verb: str, kind: Kind, rows: tuple[str, ...], *, of_2010: bool) -> tuple[str, ...]:
    """Return a scenario's rows, those first that a violation of this kind is about."""
    spoken_of = ABOUT.get((verb, kind), frozenset())
    first = tuple(row for row in rows if row in spoken_of)
    if not first and (home := TAKEN_FOR_GRANTED.get((verb, kind))) is not None:
        first = (home[of_2010],)
    return (*first, *(row for row in rows if row not in first))
