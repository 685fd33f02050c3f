"""How the settings of Spark depend on the size of a history."""

import pytest

from conformance.spark.partitioning import INTERPRETED_OCTETS, SMALL_OCTETS, partition_count, settings_for_size


@pytest.mark.parametrize(
    ("octets", "single", "compiled"),
    [
        (0, True, False),
        (INTERPRETED_OCTETS - 1, True, False),
        (INTERPRETED_OCTETS, True, True),
        (SMALL_OCTETS - 1, True, True),
        (SMALL_OCTETS, False, True),
    ],
)
def test_a_small_history_has_one_partition_and_a_very_small_one_is_interpreted(
    octets: int, *, single: bool, compiled: bool
) -> None:
    settings = settings_for_size(octets)
    assert (settings["spark.sql.shuffle.partitions"] == "1") is (partition_count(octets) == 1) is single
    assert settings["spark.sql.codegen.wholeStage"] == str(compiled).lower()
    assert settings["spark.sql.codegen.factoryMode"] == ("FALLBACK" if compiled else "NO_CODEGEN")
