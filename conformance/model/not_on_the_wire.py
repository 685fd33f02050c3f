"""The requirements that no rule of the model judges, each with the reason: no recorded history can show that they hold."""

from collections.abc import Mapping

NOT_ON_THE_WIRE: Mapping[str, str] = {}
"""Id of a requirement -> why a history cannot show whether it holds, in one sentence."""
