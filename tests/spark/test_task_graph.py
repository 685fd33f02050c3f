"""Tasks that depend on each other: each waits for its prerequisites and for no others."""

import threading

import pytest

from conformance.spark.task_graph import MAX_RUNNING, Task, names_in_query, run_tasks


def test_a_task_starts_after_the_end_of_its_prerequisites() -> None:
    ran: list[str] = []
    early = threading.Event()  # set where a task does not wait for the end of another

    def first() -> None:
        early.wait(0.1)
        ran.append("first")

    def second() -> None:
        early.set()
        ran.append("second")

    steps = {
        "last": Task(lambda: ran.append("last"), frozenset({"first", "second"})),
        "second": Task(second, frozenset({"first"})),
        "first": Task(first),
    }
    run_tasks(steps)
    assert ran == ["first", "second", "last"]


def test_independent_tasks_run_at_the_same_time() -> None:
    meeting = threading.Barrier(MAX_RUNNING)  # broken where one would have to wait for the others' end
    given = run_tasks({str(n): Task(lambda: meeting.wait(timeout=20) >= 0) for n in range(MAX_RUNNING)})
    assert given == {str(n): True for n in range(MAX_RUNNING)}


def test_of_several_ready_tasks_the_first_named_starts() -> None:
    ran: list[str] = []
    gate = threading.Event()

    def busy() -> None:
        assert gate.wait(timeout=20)

    def open_gate() -> None:
        ran.append("needed")
        gate.set()

    holding = {f"busy {n}": Task(busy) for n in range(MAX_RUNNING - 1)}
    rest = {"begins": Task(lambda: ran.append("begins")), "needed": Task(open_gate, frozenset({"begins"}))}
    later = {f"later {n}": Task(lambda: ran.append("later")) for n in range(3)}
    run_tasks({**holding, **rest, **later})
    assert ran[:2] == ["begins", "needed"]


def test_an_exception_of_a_task_is_raised_and_no_dependent_task_starts() -> None:
    ran: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    tasks = {
        "before": Task(lambda: ran.append("before")),
        "fails": Task(fails, frozenset({"before"})),
        "after": Task(lambda: ran.append("after"), frozenset({"fails"})),
        "last": Task(lambda: ran.append("last"), frozenset({"after"})),
    }
    with pytest.raises(ValueError, match="no"):
        run_tasks(tasks)
    assert ran == ["before"]


def test_names_in_a_query_are_whole_words() -> None:
    names = {"mails", "made", "mail", "shadow", "copies"}
    query = "SELECT made.n, shadow_mails FROM made,(SELECT n FROM mails) m"
    assert names_in_query(query, names) == {"mails", "made"}
