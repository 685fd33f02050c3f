"""A cell as reports see it: its header, events and verdicts, and the text of its scenario.

Pages, failure texts and Allure's results are made of a `CellView`. A *row* is the id of a row of the requirement catalogue; a
failed verdict violates the first of its `requirements`. The *evidence* of a verdict are the numbers of the events that show
it.
"""

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


@dataclass(frozen=True)  # no slots: cached properties need an instance dictionary
class CellView:
    """A cell as reports see it.

    `file` is the path of the cell's history, or None where it is not stored. `source` has the lines of the scenario's
    file, and is empty where the file is not available. `logs` has the path of each node's log by node. `known` is the
    baseline's comment where every failure is known, else ''. `cut_short` says that the run ended before the cell did. A
    *row* is the id of a row of the requirement catalogue; a failed verdict violates the first of its `requirements`.
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
        """The cell's name for people: `scenario[axis=value,...]`, or the scenario alone for a cell without axes."""
        axes = ",".join(f"{axis}={value}" for axis, value in self.header.axes.items())
        return f"{self.header.scenario}[{axes}]" if axes else self.header.scenario

    @cached_property
    def outcome(self) -> Outcome:
        """The worst outcome of the verdicts; inconclusive without verdicts, and at best for a cell that was cut short."""
        outcome = worst_in_cell(verdict.outcome for verdict in self.verdicts)
        return worst_in_cell((outcome, Outcome.INCONCLUSIVE)) if self.cut_short else outcome

    @cached_property
    def findings(self) -> tuple[Verdict, ...]:
        """The verdicts that are neither a pass nor not applicable, those with the cell's outcome first."""
        reported = [v for v in self.verdicts if v.outcome not in OK_OUTCOMES]
        return tuple(sorted(reported, key=lambda v: (v.outcome is not self.outcome, OVER_CELLS.index(v.outcome))))

    @cached_property
    def remarks(self) -> tuple[Verdict, ...]:
        """The passes with a remark: a `should` row was violated, which does not fail the cell."""
        return tuple(verdict for verdict in self.verdicts if verdict.remark)

    @cached_property
    def _roots(self) -> Mapping[str, str]:
        """Violated row -> the violated row of this cell that it may follow from (itself for a root)."""
        rows = [v.requirements[0] for v in self.verdicts if v.outcome is Outcome.FAIL and v.requirements]
        return root_violations(rows, independent=rows[:1])  # the first row violated counts as a root

    def may_follow_from(self, verdict: Verdict) -> str:
        """Return the other violated row of this cell from which a failed verdict may follow.

        '' where its violation follows from no other, and for a verdict that did not fail.
        """
        row = verdict.requirements[0] if verdict.outcome is Outcome.FAIL and verdict.requirements else ""
        root = self._roots.get(row, "")
        return root if root != row else ""

    @cached_property
    def crashed_node(self) -> str | None:
        """The first node that exited unexpectedly or failed to start; None where no node did."""
        crashed = (e.node for e in self.events if isinstance(e, NodeEvent) and e.action in ("exited", "failed"))
        return next(crashed, None)

    @cached_property
    def violation_by_event(self) -> Mapping[int, Verdict]:
        """Event number -> the first violation or error that has the event as evidence; diagrams mark these events."""
        by_event: dict[int, Verdict] = {}
        for verdict in self.findings:
            if verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
                for number in self.evidence_of(verdict):
                    by_event.setdefault(number, verdict)
        return by_event

    def evidence_of(self, verdict: Verdict) -> tuple[int, ...]:
        """Return the numbers of the events that show a verdict, the offending one first; () where there are none.

        A finding about something that never happened has no event: then the evidence is the harness's last attempt to send
        the message that the verdict is about, if there was one.
        """
        if verdict.evidence or verdict.message is None or (verdict.outcome is Outcome.PASS and not verdict.remark):
            return verdict.evidence
        attempts = [e.n for e in self.events if isinstance(e, Attempt) and e.message == verdict.message]
        return tuple(attempts[-1:])

    @cached_property
    def event_by_number(self) -> Mapping[int, AnyEvent]:
        """Event number -> event."""
        return {event.n: event for event in self.events}

    @cached_property
    def sessions(self) -> Mapping[str, Connected]:
        """Session name -> the event that opened the session."""
        return {event.session: event for event in self.events if isinstance(event, Connected)}

    @property
    def kept_directory(self) -> Path | None:
        """The copies of the nodes' directories that `--keep` made, or None where there are none."""
        folder = kept_directory(self.file) if self.file is not None else None
        return folder if folder is not None and folder.is_dir() else None

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the topology's servers, in its order; none where the stored topology is damaged."""
        servers = self.header.topology.get("servers", [])
        if not isinstance(servers, list):
            return ()
        return tuple(str(server["name"]) for server in servers if isinstance(server, dict) and "name" in server)

    def source_line(self, line: int | None) -> str | None:
        """Return a line (from 1) of the scenario's file, or None where the file or the line is not available."""
        return self.source[line - 1].rstrip() if line is not None and 0 < line <= len(self.source) else None


def view_stored_cell(cell: StoredCell, corpus: Path | None = None) -> CellView:
    """Return the view of a stored cell; the scenario's file is read from the directory `corpus`, if given.

    The nodes' logs are those that are not compressed. A scenario's file that cannot be read is left out.
    """
    logs = {path.parent.name: path for path in sorted(cell.attachments.glob("*/node.log"))}
    source = _read_lines(corpus / cell.header.path) if corpus is not None else ()
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


def _read_lines(path: Path) -> tuple[str, ...]:
    """Return the lines of a text file; none where it cannot be read."""
    try:
        return tuple(path.read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError):  # the corpus may have moved: reports then show the line's number only
        return ()
