"""The words of `--candidate`: `NAME`, `FILE.yaml`, `exec:reference`, `docker:IMAGE`, `tcp:HOST:PORT`, each one
candidate; the reference may have a defect, `reference+DEFECT`.
"""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.candidates.description import (
    REFERENCE,
    Candidate,
    CandidateError,
    read_description,
)
from conformance.candidates.kind import KINDS, Kind
from conformance.scenarios.errors import did_you_mean, unknown_name

_NO_WORD = re.compile(r"[^A-Za-z0-9_.+-]+")


def find_candidate(word: str, shipped: Path) -> Candidate:
    """Return the candidate that a word of the command line names; `shipped` holds those that come with the harness.

    Raises CandidateError when there is none, or its description is not right.
    """
    for kind in KINDS.values():
        if kind.word and word.startswith(kind.word.partition(":")[0] + ":"):
            return _of_kind(kind, word)
    if word.endswith((".yaml", ".yml")):
        return _of_file(word, Path(word), shipped)
    name, plus, defect = word.partition("+")
    candidate = _named(name, shipped)
    if plus and candidate.name != REFERENCE.name:
        raise CandidateError(f"--candidate {word}: only the reference can be run with a defect")
    known = {*reference_defects(), *reference_readings()} if plus else set()
    for one in defect.split("+") if plus else ():
        if one not in known:
            raise CandidateError(
                f"--candidate {word}: {unknown_name('defect', one, known)}; `conformance defects` tries them all, and "
                "docs/reference-transport.md lists the conforming readings"
            )
    return candidate.model_copy(update={"defect": defect}) if plus else candidate


def reference_defects() -> Mapping[str, Any]:
    """Return the defects of the reference by name, from its own catalogue: it is known by its dotted name only."""
    defects: Mapping[str, Any] = importlib.import_module("conformance.reference.defects.catalogue").DEFECTS
    return defects


def installable_candidates(shipped: Path) -> tuple[Candidate, ...]:
    """Return the shipped candidates that `conformance candidate install` brings, each under its own name."""
    found = [read_description(path) for path in sorted(shipped.glob("*.yaml"))]
    return tuple(candidate for candidate in found if candidate.installed == candidate.name)


def reference_readings() -> tuple[str, ...]:
    """Return the names of the reference's conforming readings, and the one that stands for all of them, which is last."""
    catalogue = importlib.import_module("conformance.reference.readings.catalogue")
    return (*sorted(catalogue.READINGS), catalogue.EVERY)


def _of_kind(kind: Kind, word: str) -> Candidate:
    what = word.partition(":")[2]
    try:
        described = kind.parse_word(what, _NO_WORD.sub("-", what).strip("-"))
    except ValueError as error:
        raise CandidateError(f"--candidate {word}: write {kind.word}") from error
    return Candidate.model_validate({"kind": kind.name, "claims": ("relay",), **described})


def _named(name: str, shipped: Path) -> Candidate:
    if name == REFERENCE.name:
        return REFERENCE
    kind, _, of_kind = name.partition(":")
    if of_kind == REFERENCE.name and kind in KINDS and getattr(REFERENCE, KINDS[kind].needs):
        return REFERENCE.model_copy(update={"kind": kind})
    return _of_file(name, shipped / f"{name}.yaml", shipped)


def _of_file(word: str, path: Path, shipped: Path) -> Candidate:
    if not path.is_file():
        if "/" in word or word.endswith((".yaml", ".yml")):
            raise CandidateError(f"--candidate {word}: no such candidate, and no such file")
        known = sorted([REFERENCE.name, *(p.stem for p in shipped.glob("*.yaml"))])
        near = did_you_mean(word, known)
        raise CandidateError(
            f"--candidate {word}: no such candidate{near}, and no file {path}; there are: {', '.join(known)}"
        )
    return read_description(path)
