"""A recorded history, indexed: sessions, transactions, shadow copies, promotions, and the parameters in force at an event.

The expectations (`conformance.judge`) and the model (`conformance.model`) read this trace. It says what happened on the wire,
and nothing here decides whether that was right. `conformance.trace.finding` has the form in which a check reports.
"""
