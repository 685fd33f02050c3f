"""Miniatures: histories written by hand, each with the verdict that it must get. `tests/judge/lines.py` is their
language; the files are in `miniatures/`, a document for each check."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from conformance import paths
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.steps.action import Expect, Step
from conformance.topology import Topology
from conformance.verdicts import Outcome, Verdict
from tests.judge.history import History, Mail
from tests.judge.lines import add_lines

HERE = Path(__file__).parent / "miniatures"
CLAIMS = frozenset({"relay", "shadow-2013", "shadow-2010", "duplicate-detection", "lmtp-delivery"})
Kind = Literal["good", "bad", "vacuous", "inconclusive"]
KINDS: tuple[Kind, ...] = ("good", "bad", "vacuous", "inconclusive")
ELSEWHERE = "RL-ACK-02"
"""The requirement that each miniature's scenario names; no check blames it by itself."""


class _Loader(yaml.SafeLoader):
    """YAML as the scenario language has it: `on`, `yes` and `no` are words."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tf"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Miniature:
    """One history with the verdict that one check must give; `says` is a part of the verdict's sentence."""

    file: str
    check: str
    kind: Kind
    title: str
    requirement: str
    says: str
    cell: Cell
    history: History
    setting: JudgeSettings

    def judge(self) -> Verdict:
        """Return the verdict of the check that it is about."""
        # a rule of the model has no verdict where it had no occasion
        none = Verdict(check=self.check, outcome=Outcome.NOT_APPLICABLE, sentence="")
        return next((v for v in self.all_verdicts() if v.check == self.check), none)

    def all_verdicts(self) -> tuple[Verdict, ...]:
        """Return the verdicts of all checks."""
        return judge_cell(self.cell, self.history.events, self.setting)

    @property
    def outcome(self) -> Outcome:
        """The verdict that it must get."""
        if self.kind == "vacuous" and not self.check.startswith("expect."):
            return Outcome.NOT_APPLICABLE
        return {"good": Outcome.PASS, "bad": Outcome.FAIL}.get(self.kind, Outcome.INCONCLUSIVE)


@cache
def miniatures() -> tuple[Miniature, ...]:
    """Return every miniature of every file. Raises ValueError for a line that cannot be parsed, or a bad one without `says`."""
    return tuple(one for path in sorted(HERE.glob("*.yaml")) for one in _read(path))


def _read(path: Path) -> Iterator[Miniature]:
    for document in yaml.load_all(path.read_text("utf-8"), _Loader):  # noqa: S506  # a SafeLoader
        for case in document["cases"]:
            yield _miniature(path.stem, {**document, **case})


def _miniature(file: str, what: Mapping[str, Any]) -> Miniature:
    kind = next(kind for kind in KINDS if kind in what)
    if kind == "bad" and "says" not in what:
        raise ValueError(f"{what['check']}: {what['bad']!r} has no `says`")
    topology = _topology(what.get("topology", "two-servers-one-dag"), what.get("configure", {}))
    history = History(topology)
    for name, mail in what.get("messages", {"m": "bob@corp.test"}).items():
        history.add_message(_mail(name, mail))
    add_lines(history, what["history"])
    expect = what.get("expect")
    if expect is not None:
        if not any(getattr(event, "phase", "") == "reached" for event in history.events):
            history.step("reached", "1", "expect")
        history.step("ended", "1", "expect")
    complete = what.get("complete", True)
    claims = (CLAIMS | set(what.get("claimed", ()))) - set(what.get("unclaimed", ()))
    return Miniature(
        file=file,
        check=what["check"],
        kind=kind,
        title=what[kind],
        requirement=what.get("requirement", ELSEWHERE),
        says=what.get("says", ""),
        cell=_cell(topology, what, expect),
        history=history,
        setting=JudgeSettings(
            "virtual",
            what.get("tolerance", 0.0),
            claims,
            complete,
            what.get("should", "warn"),
        ),
    )


def _mail(name: str, written: Any) -> Mail:
    fields = written if isinstance(written, dict) else {"to": written}
    to = fields.get("to", "bob@corp.test")
    given = {key.replace("-", "_"): value for key, value in fields.items() if key not in ("to", "from")}
    return Mail(
        name, (to,) if isinstance(to, str) else tuple(to), sender=fields.get("from", "alice@outside.test"), **given
    )


def _topology(written: str | Mapping[str, Any], configure: Mapping[str, Any]) -> Topology:
    if isinstance(written, str):
        topology = load_topology(paths.fixtures() / "topologies" / f"{written}.yaml")
    else:
        topology = Topology.model_validate(written)
    return topology.model_copy(update={"transport": {**topology.transport, **configure}})


def _cell(topology: Topology, what: Mapping[str, Any], expect: Mapping[str, Any] | None) -> Cell:
    steps = ()
    if expect is not None:
        verb = str(what["check"]).removeprefix("expect.")
        expectation = EXPECTATIONS[verb].model_validate(expect)
        steps = (Step(path="1", line=7, verb="expect", action=Expect(verb=verb, expectation=expectation)),)
    return Cell(
        scenario="miniature", title=str(what["check"]), path="miniature.yaml", line=1, axes={},
        requirements=(ELSEWHERE,), needs=(), topology=topology, drain=3600.0, steps=steps, sha256="0" * 64,
    )  # fmt: skip
