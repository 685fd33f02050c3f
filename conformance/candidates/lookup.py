"""Which candidate a word of `--candidate` names.

The words are `NAME`, `FILE.yaml`, `exec:reference`, `docker:IMAGE`, `tcp:HOST:PORT`, or `reference+DEFECT`, the reference
server with a defect or another conforming reading (or several: `reference+ONE+OTHER`). *Shipped* descriptions are those that
come with the harness.
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

MAX_NAME = 60
"""Characters of an argument that the name of its candidate has; the kind comes before them."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]+")


def find_candidate(word: str, shipped: Path) -> Candidate:
    """Return the candidate that a word of the command line names.

    `shipped` is the folder of the descriptions that come with the harness. Raises CandidateError when there is no such
    candidate, or when its description has errors.
    """
    for kind in KINDS.values():
        if kind.word and word.startswith(kind.word.partition(":")[0] + ":"):
            return _candidate_of_kind(kind, word)
    if word.endswith((".yaml", ".yml")):
        return _read_file(word, Path(word), shipped)
    name, plus, defect = word.partition("+")
    candidate = _find_by_name(name, shipped)
    if plus and candidate.name != REFERENCE.name:
        raise CandidateError(f"--candidate {word}: only the reference can have a defect")
    known = {*reference_defects(), *reference_readings()} if plus else set()
    for part in defect.split("+") if plus else ():
        if part not in known:
            raise CandidateError(
                f"--candidate {word}: {unknown_name('defect', part, known)}; `conformance defects` tries them all, and "
                "docs/reference-transport.md lists the conforming readings"
            )
    return candidate.model_copy(update={"defect": defect}) if plus else candidate


def reference_defects() -> Mapping[str, Any]:
    """Return the reference's `Defect` objects by name.

    The reference is imported by its dotted name: the harness shares no code with it, and has no type for a defect of it.
    """
    defects: Mapping[str, Any] = importlib.import_module("conformance.reference.defects.catalogue").DEFECTS
    return defects


def installable_candidates(shipped: Path) -> tuple[Candidate, ...]:
    """Return the shipped candidates that `conformance candidate install` can install, sorted by file name."""
    descriptions = map(read_description, sorted(shipped.glob("*.yaml")))
    return tuple(candidate for candidate in descriptions if candidate.installed == candidate.name)


def reference_readings() -> tuple[str, ...]:
    """Return the names of the reference's conforming readings; the last one, `every-reading`, stands for all of them."""
    catalogue = importlib.import_module("conformance.reference.defects.catalogue")
    return (*sorted(catalogue.READINGS), catalogue.EVERY)


def _candidate_of_kind(kind: Kind, word: str) -> Candidate:
    """Return the candidate of a word such as `docker:IMAGE`, which no file describes; it claims only `relay`.

    Its name is made from the argument's first 60 characters. Raises CandidateError when the argument is malformed, or no name can be
    made from it.
    """
    argument = word.partition(":")[2]
    try:
        fields = kind.parse_word(argument, _NOT_IN_NAMES.sub("-", argument).strip("-")[:MAX_NAME].strip("-"))
        return Candidate.model_validate({"kind": kind.name, "claims": ("relay",), **fields})
    except ValueError as error:
        raise CandidateError(f"--candidate {word}: write {kind.word}") from error


def _find_by_name(name: str, shipped: Path) -> Candidate:
    """Return the reference, as `KIND:reference` names it too, or the shipped description of a name.

    Raises CandidateError. The reference can be of each kind whose required field (`Kind.needs`) its description has.
    """
    if name == REFERENCE.name:
        return REFERENCE
    kind, _, of_kind = name.partition(":")
    if of_kind == REFERENCE.name and kind in KINDS and getattr(REFERENCE, KINDS[kind].needs):
        return REFERENCE.model_copy(update={"kind": kind})
    return _read_file(name, shipped / f"{name}.yaml", shipped)


def _read_file(word: str, path: Path, shipped: Path) -> Candidate:
    """Read the description at `path`, which a word of the command line names.

    Raises CandidateError; for a wrong name with a suggestion among the descriptions in `shipped`.
    """
    if not path.is_file():
        if "/" in word or word.endswith((".yaml", ".yml")):
            raise CandidateError(f"--candidate {word}: no such candidate, and no such file")
        known = sorted([REFERENCE.name, *(p.stem for p in shipped.glob("*.yaml"))])
        near = did_you_mean(word, known)
        raise CandidateError(
            f"--candidate {word}: no such candidate{near}, and no file {path}; known candidates: {', '.join(known)}"
        )
    return read_description(path)
