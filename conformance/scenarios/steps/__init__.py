"""What a scenario can do: one closed model for each step verb, in the room of its kind; `table` has them all.

`conformance.run.steps` does them, in rooms of like names.
"""
