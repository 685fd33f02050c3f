"""Texts of events that pages and diagrams have in common."""

import pytest

from conformance.report.event_text import rounded_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.04, "0 s"), (12.5, "12.5 s"), (59.94, "59.9 s"), (59.98, "1 m"), (3599.99, "1 h"), (3601, "1 h 1 s"),
        (10680, "2 h 58 m"), (100_800, "1 d 4 h"),
    ],
)  # fmt: skip
def test_a_duration_is_rounded_before_it_is_split_into_units(seconds: float, text: str) -> None:
    assert rounded_duration(seconds) == text
