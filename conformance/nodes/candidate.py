"""A candidate: a description, in YAML, of how to run a mail-transport node under test (node contract).

The grammar of `--candidate` is `NAME`, `FILE.yaml`, `KIND:WHAT` (`exec:reference`, `docker:IMAGE`, `tcp:HOST:PORT`),
each with an optional `+DEFECT` for the reference. Identity is independent of kind: the same server under two kinds
has one name in every report.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

Kind = Literal["python", "exec", "docker", "remote"]


class CandidateError(ValueError):
    """A candidate's description cannot be used; the text says what is wrong and where."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Candidate(_Closed):
    """How to run one node, and what it claims to support."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=80)
    kind: Kind
    claims: tuple[str, ...] = Field(description="capabilities; what is claimed and missing is a failure")
    version: str = "unknown"
    dialect: str = "profile-1"
    factory: str | None = Field(None, description="python: `package.module:factory`")
    argv: tuple[str, ...] = Field((), description="exec: the command, with {config}, {data}, {name}, {listen.frontend}")
    files: dict[str, str] = Field({}, description="files to render into the data directory first: name -> template")
    commands: dict[str, tuple[str, ...]] = Field({}, description="inspect, redirect-messages, resubmit, version, ...")
    environment: dict[str, str] = {}
    ready_within: float = Field(20.0, alias="ready-within", gt=0, description="seconds, real")
    stop_within: float = Field(20.0, alias="stop-within", gt=0, description="seconds, real")
    defect: str | None = Field(None, description="a defect of the reference to run with")
    generations: tuple[str, ...] = Field(("ex2010", "ex2013", "ex2016"), description="behaviour sets it can take")

    @property
    def identity(self) -> str:
        """The name in every report: the same under every kind; a defect makes it another."""
        return f"{self.name}+{self.defect}" if self.defect else self.name

    @property
    def sha256(self) -> str:
        """A hash of the whole description: did the candidate change between two runs?"""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def missing(self, needs: tuple[str, ...]) -> tuple[str, ...]:
        """Return the needed capabilities that are not claimed."""
        return tuple(need for need in needs if need not in self.claims)


REFERENCE = Candidate(
    name="reference",
    kind="python",
    claims=(
        "relay",
        "dsn",
        "lmtp-delivery",
        "duplicate-detection",
        "shadow-2013",
        "safety-net",
        "inspect",
        "resubmit",
    ),
    factory="conformance.reference.node:create",
    argv=("{python}", "-m", "conformance.reference", "--config", "{config}"),
    commands={
        name: ("{python}", "-m", "conformance.reference", "--config", "{config}", name, *placeholders)
        for name, placeholders in {
            "inspect": (),
            "redirect-messages": ("{1}",),
            "resubmit": ("{1}",),
        }.items()
    },
)
"""The reference transport, in this process; `exec:reference` is the same as a program of its own."""


def find(word: str, shipped: Path) -> Candidate:
    """Return the candidate that a word of the command line names.

    Raises CandidateError when there is none, or its description is not right.
    """
    word, plus, defect = word.partition("+")
    candidate = _without_defect(word, shipped)
    if plus and candidate.name != REFERENCE.name:
        raise CandidateError(f"--candidate {word}+{defect}: only the reference can be run with a defect")
    return candidate.model_copy(update={"defect": defect}) if plus else candidate


def _without_defect(word: str, shipped: Path) -> Candidate:
    if word == REFERENCE.name:
        return REFERENCE
    if word == f"exec:{REFERENCE.name}":
        return REFERENCE.model_copy(update={"kind": "exec"})
    path = Path(word) if word.endswith((".yaml", ".yml")) else shipped / f"{word}.yaml"
    if not path.is_file():
        known = ", ".join(sorted([REFERENCE.name, *(p.stem for p in shipped.glob("*.yaml"))]))
        raise CandidateError(f"--candidate {word}: no such candidate, and no file {path}; there are: {known}")
    try:
        return Candidate.model_validate(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")))
    except YAMLError as error:
        raise CandidateError(f"{path}: this is no YAML: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise CandidateError(f"{path}: {problems}") from error
