"""The model explored by itself: what servers that obey the documents can still lose or duplicate.

The documents are written here as small steps (`common_rules.py`, `mailbox_rules.py`, `hub_rules.py`, `server_rules.py`), each
with the rows of the catalogue that it is made from. A rule yields the steps that it permits in a state; nothing is ever demanded,
so a server may wait for as long as it likes, and a long interval is a step that may come at any time while its condition holds. A
scope (`scope.py`) says how many servers, messages and faults there are, which makes the number of states finite.

`search.py` visits every reachable state. `causes.py` finds the minimal sets of causes that lead to a loss or a duplicate, each
with a shortest sequence. `failures.py` says in words what they mean, and `page.py` writes docs/failure-analysis.md.

What is right in a recorded history is not decided here: these rules say what may happen next in a world that is known completely,
and import nothing that judges.
"""
