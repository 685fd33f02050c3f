"""What one check counts: its occasions to fail, what is wrong, and what cannot be decided.

Each function `check_...` returns one for every clause that it checks; `judge_client` makes findings of them.
"""

from dataclasses import dataclass, field

from conformance.live_checks import LiveFinding, LiveOutcome

Remark = tuple[str, str | None]
"""A sentence, and the session that shows it, None for no single one."""


@dataclass(slots=True)
class Tally:
    """The counts of one check. `should`: the clause is a SHOULD. `good` says what a client does that passes."""

    check: str
    clause: str
    good: str
    requirement: str | None = None
    should: bool = False
    occasions: int = 0
    violations: list[Remark] = field(default_factory=list)
    undecided: list[Remark] = field(default_factory=list)

    def violate(self, sentence: str, session: str | None) -> None:
        """Count an occasion, and note that the clause was violated: `sentence` says how, `session` shows it (None: no single one)."""
        self.occasions += 1
        self.violations.append((sentence, session))

    def leave_open(self, sentence: str, session: str | None) -> None:
        """Note what looks like a violation and need not be one; no occasion is counted."""
        self.undecided.append((sentence, session))

    def finding(self) -> LiveFinding:
        """Return the finding: *fail* (`should`: *warn*) for violations, else *inconclusive* for what is undecided, else *pass*.

        Without any of these and without an occasion it is *not applicable*. The first remark gives the sentence and the session.
        """
        session: str | None = None
        if self.violations:
            outcome = LiveOutcome.WARN if self.should else LiveOutcome.FAIL
            sentence, session = self._first(self.violations)
        elif self.undecided:
            outcome = LiveOutcome.INCONCLUSIVE
            sentence, session = self._first(self.undecided)
        elif self.occasions:
            outcome, sentence = LiveOutcome.PASS, f"{self.good} ({self.occasions} of {self.occasions})"
        else:
            outcome, sentence = LiveOutcome.NOT_APPLICABLE, f"no occasion to see that the client {self.good}"
        return LiveFinding(
            check=self.check,
            clause=self.clause,
            outcome=outcome,
            sentence=sentence,
            requirement=self.requirement,
            session=session,
        )

    @staticmethod
    def _first(remarks: list[Remark]) -> Remark:
        """Return the first remark, a pair of sentence and session, with the number of the others in its sentence."""
        sentence, session = remarks[0]
        return sentence + (f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""), session
