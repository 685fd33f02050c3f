"""Durations, sizes and parameters as the documents write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.scenarios.values import format_duration, parse_duration, parse_parameter, parse_size


@pytest.mark.parametrize(
    ("written", "value"),
    [("250ms", 0.25), ("30s", 30), ("2m", 120), ("3h", 10800), ("2d", 172800), ("1h30m", 5400), (7, 7), (0.5, 0.5)],
)
def test_durations_are_parsed(written: object, value: float) -> None:
    assert parse_duration(written) == value


@pytest.mark.parametrize("written", ["", "2", "2 m", "2minutes", "-2m", "m", None, True, [1], "1h 30m", "2M"])
def test_an_invalid_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is not a valid duration: write 250ms, 30s, 2m, 3h, 2d or 1h30m"):
        parse_duration(written)


@pytest.mark.parametrize(("written", "value"), [("998", 998), ("2KB", 2048), ("10 MB", 10 * 1024**2), (5, 5)])
def test_sizes_are_parsed(written: object, value: int) -> None:
    assert parse_size(written) == value


@pytest.mark.parametrize("written", ["", "2kb", "-1", "1.5MB", "5GB", "MB", "9" * 41, None, True, 1.5, [5]])
def test_an_invalid_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="is not a valid size"):
        parse_size(written)


@given(st.integers(0, 10**9).map(lambda thousandths: thousandths / 1000))
def test_a_formatted_duration_parses_to_the_same_value(duration: float) -> None:
    assert round(parse_duration(format_duration(duration)), 3) == duration


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("no", False),
        ("2m", 120),
        ("1h30m", 5400),
        ("1500ms", 1.5),
        ("10MB", 10 * 1024**2),
        ("LocalOnly", "LocalOnly"),
        ("12", "12"),
        ("2 minutes", "2 minutes"),
        ("", ""),
        (12, 12),
        (None, None),
        ({"a": "2m"}, {"a": 120}),
        (["2m"], ["2m"]),
    ],
)
def test_parameters_are_parsed(written: object, value: object) -> None:
    read = parse_parameter(written)
    assert (read, type(read)) == (value, type(value))
