"""Options of `conformance aggregate` that are parsed without Spark."""

import pytest

pytest.importorskip("pyspark")

from conformance.spark.aggregation import parse_fail_on
from conformance.spark.session import BadSetting, parse_settings


def test_fail_on_accepts_known_words_only() -> None:
    assert parse_fail_on(" flaky,regression") == {"flaky", "regression"}
    assert parse_fail_on("disagreement, regression") == {"disagreement", "regression"}
    assert parse_fail_on("") == frozenset()
    with pytest.raises(ValueError, match="--fail-on losses: choose from regression, flaky, disagreement"):
        parse_fail_on("flaky,losses")


def test_a_setting_is_a_spark_key_and_its_value() -> None:
    assert parse_settings(["spark.a=b=c", "spark.x="]) == {"spark.a": "b=c", "spark.x": ""}
    for bad in ("spark.a", "a=secret", "sparks=secret", "=secret"):
        with pytest.raises(BadSetting, match=r"write spark\.something=value") as caught:
            parse_settings([bad])
        assert "secret" not in str(caught.value)
