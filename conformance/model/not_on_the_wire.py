"""The requirements that no rule of the model judges, each with the reason: no recorded history can show that they hold."""

from collections.abc import Mapping

NOT_ON_THE_WIRE: Mapping[str, str] = {
    "RL-ACK-05": "no event shows which names a power cut took away; a loss after it is judged under RL-ACK-01",
    "SR-OUT-04": "it permits a second copy; that each recipient gets one at least is judged under RL-ACK-01",
}
"""Id of a requirement -> why a history cannot show whether it holds, in one sentence."""
