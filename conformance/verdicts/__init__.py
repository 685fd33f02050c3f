"""What a verdict is, and the rules about verdicts: their order, how they are displayed, what changed between runs.

`judge` makes verdicts, `results` stores them, `report` and `spark` count and compare them. All of them use these rules; Spark
uses them as SQL text (`conformance.verdicts.sql`), generated from the same tables. Nothing here knows what a mail server must
do.
"""

from conformance.verdicts.outcome import Outcome, Reason, Verdict, worst_in_cell, worst_over_cells

__all__ = ["Outcome", "Reason", "Verdict", "worst_in_cell", "worst_over_cells"]
