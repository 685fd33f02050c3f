"""What a verdict is, and what follows from verdicts: their order, their words, changes between runs, a row's verdict.

These rules stand here once. `judge` makes verdicts, `results` stores them, `report` and `spark` count and compare
them; all of them take the rules from here, and Spark takes them as SQL text (`conformance.verdicts.sql`), which is
generated from the same tables. Nothing here knows what a mail server must do.
"""

from conformance.verdicts.outcome import Outcome, Reason, Verdict, worst_in_cell, worst_over_cells

__all__ = ["Outcome", "Reason", "Verdict", "worst_in_cell", "worst_over_cells"]
