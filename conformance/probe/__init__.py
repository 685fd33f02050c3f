"""`conformance probe`: judges a mail server that already runs, by what it replies, without a next hop of the harness.

Each check is a function in a module of `topics`, registered with the clause that it is about (`checks`). It holds sessions of
its own (`session`, `server`), since an error in one may change how a server treats the next command. Checks about all replies
of all sessions run last. `run` runs them several at a time, within a limit for all.
"""
