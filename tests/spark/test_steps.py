"""Steps that build on each other: each waits for those before it and for no others."""

import threading

import pytest

from conformance.spark.steps import AT_ONCE, Step, done, named_in


def test_a_step_begins_when_those_before_it_have_ended() -> None:
    told: list[str] = []
    steps = {
        "last": Step(lambda: told.append("last"), frozenset({"first", "second"})),
        "second": Step(lambda: told.append("second"), frozenset({"first"})),
        "first": Step(lambda: told.append("first")),
    }
    done(steps)
    assert told == ["first", "second", "last"]


def test_steps_that_need_not_wait_are_under_way_together() -> None:
    meeting = threading.Barrier(AT_ONCE)  # broken where one would have to wait for the others' end
    given = done({str(n): Step(lambda: meeting.wait(timeout=20) >= 0) for n in range(AT_ONCE)})
    assert given == {str(n): True for n in range(AT_ONCE)}


def test_of_several_that_may_begin_the_first_named_does() -> None:
    told: list[str] = []
    gate = threading.Event()

    def busy() -> None:
        assert gate.wait(timeout=20)

    def open_gate() -> None:
        told.append("needed")
        gate.set()

    holding = {f"busy {n}": Step(busy) for n in range(AT_ONCE - 1)}
    rest = {"begins": Step(lambda: told.append("begins")), "needed": Step(open_gate, frozenset({"begins"}))}
    later = {f"later {n}": Step(lambda: told.append("later")) for n in range(3)}
    done({**holding, **rest, **later})
    assert told[:2] == ["begins", "needed"]


def test_what_a_step_raises_is_raised_and_nothing_after_it_begins() -> None:
    told: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        done({"fails": Step(fails), "after": Step(lambda: told.append("after"), frozenset({"fails"}))})
    assert told == []


def test_a_query_names_whole_words_only() -> None:
    assert named_in("SELECT n FROM mails m JOIN made USING (n)", {"mails", "made", "mail", "copies"}) == {
        "mails",
        "made",
    }
