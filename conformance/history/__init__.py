"""The history of a cell: what happened, as numbered events. It connects running, judging and reporting.

`events` and `values` declare what is recorded, `recorder` numbers and stamps events as they happen, `secrets` removes
passwords from them. `dialects` parses the commands of shadow redundancy, however a server spells them. `consistency` checks
a stored history before it is judged again.
"""
