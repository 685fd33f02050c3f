"""The markers of the test that runs now."""

timed = False
"""Whether the test that runs now is marked `timed`; `tests/conftest.py` sets it."""
