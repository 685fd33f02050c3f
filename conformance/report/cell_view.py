"""Everything that is told about one cell: its header, events and verdicts, and the text of its scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from conformance.history.events import AnyEvent, Attempt, Connected, NodeEvent
from conformance.requirements.consequences import root_violations
from conformance.results.kept_nodes import kept_directory
from conformance.results.reader import StoredCell
from conformance.results.schema import CellHeader
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from conformance.verdicts.outcome import OK_OUTCOMES, OVER_CELLS


@dataclass(frozen=True)  # no slots: the cached properties need a place
class CellView:
    """A cell as reports see it; `cut_short` when the run was killed in it.

    `source` holds the lines of the scenario's file (empty where it is not to be had), `file` is where the whole
    history lies, `logs` the nodes' logs by name. `known` is the baseline's comment when all that failed is known to.
    """

    header: CellHeader
    events: Sequence[AnyEvent]
    verdicts: Sequence[Verdict]
    file: Path | None = None
    source: Sequence[str] = ()
    logs: Mapping[str, Path] = field(default_factory=dict)
    known: str = ""
    cut_short: bool = False

    @property
    def name(self) -> str:
        """`scenario[axis=value,...]`."""
        axes = ",".join(f"{axis}={value}" for axis, value in self.header.axes.items())
        return f"{self.header.scenario}[{axes}]" if axes else self.header.scenario

    @cached_property
    def outcome(self) -> Outcome:
        """The worst of the verdicts; a cell that was cut short is inconclusive at best."""
        found = worst_in_cell(verdict.outcome for verdict in self.verdicts)
        return worst_in_cell((found, Outcome.INCONCLUSIVE)) if self.cut_short else found

    @cached_property
    def findings(self) -> tuple[Verdict, ...]:
        """The verdicts that are neither passes nor not applicable, those that decided the outcome first."""
        told = [v for v in self.verdicts if v.outcome not in OK_OUTCOMES]
        return tuple(sorted(told, key=lambda v: (v.outcome is not self.outcome, OVER_CELLS.index(v.outcome))))

    @cached_property
    def remarks(self) -> tuple[Verdict, ...]:
        """The passes with a remark: what a `should` row asks for and was not seen."""
        return tuple(verdict for verdict in self.verdicts if verdict.remark)

    @cached_property
    def _roots(self) -> Mapping[str, str]:
        rows = [v.requirements[0] for v in self.verdicts if v.outcome is Outcome.FAIL and v.requirements]
        return root_violations(rows, independent=rows[:1])

    def may_follow_from(self, verdict: Verdict) -> str:
        """Return the row violated in this cell from whose violation this one may follow; '' when there is none."""
        row = verdict.requirements[0] if verdict.outcome is Outcome.FAIL and verdict.requirements else ""
        root = self._roots.get(row, "")
        return root if root != row else ""

    @cached_property
    def crashed_node(self) -> str | None:
        """The node that ended on its own or would not start, when one did; None otherwise."""
        ended = (e.node for e in self.events if isinstance(e, NodeEvent) and e.action in ("exited", "failed"))
        return next(ended, None)

    @cached_property
    def violation_by_event(self) -> Mapping[int, Verdict]:
        """The events that violations point at, by number: the first violation that names one owns it."""
        found: dict[int, Verdict] = {}
        for verdict in self.findings:
            if verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
                for number in self.evidence_of(verdict):
                    found.setdefault(number, verdict)
        return found

    def evidence_of(self, verdict: Verdict) -> tuple[int, ...]:
        """The events that a verdict points at, the offending one first.

        What never happened has no event of its own: then it is the last transmission of the message that it is about.
        """
        if verdict.evidence or verdict.message is None or _all_well(verdict):
            return verdict.evidence
        attempts = [e.n for e in self.events if isinstance(e, Attempt) and e.message == verdict.message]
        return tuple(attempts[-1:])

    @cached_property
    def event_by_number(self) -> Mapping[int, AnyEvent]:
        """The events by their number."""
        return {event.n: event for event in self.events}

    @cached_property
    def sessions(self) -> Mapping[str, Connected]:
        """How each session began."""
        return {event.session: event for event in self.events if isinstance(event, Connected)}

    @property
    def kept_directory(self) -> Path | None:
        """Where `--keep` has put the nodes' directories, or None."""
        kept = kept_directory(self.file) if self.file is not None else None
        return kept if kept is not None and kept.is_dir() else None

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the topology's servers, in its order."""
        servers = self.header.topology.get("servers", [])
        if not isinstance(servers, list):
            return ()
        return tuple(str(one["name"]) for one in servers if isinstance(one, dict) and "name" in one)

    def source_line(self, line: int | None) -> str | None:
        """Return a line of the scenario's file, or None where it is not to be had."""
        return self.source[line - 1].rstrip() if line is not None and 0 < line <= len(self.source) else None


def _all_well(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.PASS and not verdict.remark


def view_stored_cell(cell: StoredCell, corpus: Path | None = None) -> CellView:
    """Return what is told about a stored cell; the scenario's text is looked for under `corpus`, where given."""
    logs = {path.parent.name: path for path in sorted(cell.attachments.glob("*/node.log"))}
    source = _source(corpus / cell.header.path) if corpus is not None else ()
    return CellView(
        header=cell.header,
        events=cell.events,
        verdicts=cell.verdicts,
        file=cell.path,
        source=source,
        logs=logs,
        known=(cell.footer.known or "") if cell.footer is not None else "",
        cut_short=cell.cut_short,
    )


def _source(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError):  # a corpus that is elsewhere now: the report tells the line's number only
        return ()
