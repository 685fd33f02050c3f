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
    Address,
    Candidate,
    CandidateError,
    Container,
    read_description,
)
from conformance.scenarios.errors import did_you_mean, unknown

FIRST_NEXT_HOP = 12525
"""`tcp:HOST:PORT` must have been set up to relay to this port of 127.0.0.1: there the harness's sink answers."""

_NO_WORD = re.compile(r"[^A-Za-z0-9_.+-]+")


def find(word: str, shipped: Path) -> Candidate:
    """Return the candidate that a word of the command line names; `shipped` holds those that come with the harness.

    Raises CandidateError when there is none, or its description is not right.
    """
    if word.startswith(("docker:", "tcp:")):
        return _of_kind(word)
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
                f"--candidate {word}: {unknown('defect', one, known)}; `conformance defects` tries them all, and "
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


def _of_kind(word: str) -> Candidate:
    kind, _, what = word.partition(":")
    name = _NO_WORD.sub("-", what).strip("-")
    if kind == "docker":
        if not name:
            raise CandidateError(f"--candidate {word}: write docker:IMAGE")
        return Candidate(
            name=name,
            kind="docker",
            claims=("relay",),
            argv=("--config", "{config}"),
            container=Container(image=what),
        )
    host, _, port = what.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CandidateError(f"--candidate {word}: write tcp:HOST:PORT")
    return Candidate(
        name=f"tcp-{name}",
        kind="remote",
        claims=("relay",),
        addresses={"frontend": Address(host=host.strip("[]"), port=int(port))},
        next_hops={"outside": Address(port=FIRST_NEXT_HOP)},
    )


def _named(name: str, shipped: Path) -> Candidate:
    if name == REFERENCE.name:
        return REFERENCE
    if name == f"exec:{REFERENCE.name}":
        return REFERENCE.model_copy(update={"kind": "exec"})
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
