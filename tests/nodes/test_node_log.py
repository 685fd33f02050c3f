"""The excerpt of a log that explains a node's end: the exception, not the last line."""

import pytest

from conformance.nodes.node_log import failure_excerpt

PYTHON = """\
starting
Traceback (most recent call last):
  File "serve.py", line 3, in <module>
    queue[0]
    ~~~~~^^^
IndexError: queue is torn

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "serve.py", line 9, in <module>
    raise RuntimeError("no queue")
RuntimeError: no queue
closing the log
"""
NODE_JS = """\
node:internal/process/promises:288
            triggerUncaughtException(err, true /* fromPromise */);
            ^

Error [ERR_QUEUE]: cannot read 17.json
    at Queue.load (/srv/queue.js:10:9)
    at main (/srv/index.js:3:1)

Node.js v20.20.2
"""
JAVA = 'Exception in thread "main" java.io.IOException: torn spool\n\tat Main.main(Main.java:3)\nshutting down\n'
GO = "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n"
RUST = "thread 'main' panicked at src/main.rs:2:5:\nqueue is torn\nnote: run with `RUST_BACKTRACE=1`\n"
C = "terminate called after throwing an instance of 'std::runtime_error'\n  what():  torn queue\nAborted\n"
OLD = "Traceback (most recent call last):\n  File\nKeyError: 'old'\n" + "tick\n" * 70 + "cannot bind: address in use\n"

POSTFIX = "warning: odd name\npostsuper: fatal: cannot open file\npostfix-script: fatal: integrity check failed\n"


@pytest.mark.parametrize(
    ("log", "quoted"),
    [
        (PYTHON, "RuntimeError: no queue"),
        (NODE_JS, "Error [ERR_QUEUE]: cannot read 17.json"),
        (JAVA, "java.io.IOException: torn spool"),
        (GO, "panic: runtime error: index out of range"),
        (RUST, "thread 'main' panicked at src/main.rs:2:5: queue is torn"),
        (C, "what():  torn queue"),
        (OLD, "cannot bind: address in use"),
        ("no licence file\n", "no licence file"),
        ("error: one\nerror: two\nerror: three\nerror: four\n", "error: two; error: three; error: four"),
        ("error: one\nticking\n", "ticking"),
        (f"{PYTHON}fatal: giving up\n", "RuntimeError: no queue"),
        (POSTFIX, "postsuper: fatal: cannot open file; postfix-script: fatal: integrity check failed"),
        ("", "(it wrote nothing)"),
        ("x" * 400, "x" * 300),
    ],
)
def test_the_exception_of_a_log_is_quoted_or_else_its_last_errors_or_line(log: str, quoted: str):
    assert failure_excerpt(log) == quoted
