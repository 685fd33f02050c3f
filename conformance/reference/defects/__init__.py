"""The reference server with deliberate mistakes, one named defect each, to test the harness: a check has to catch every defect.

A defect is a class that inherits from a component of the reference, does one thing wrong, and takes that component's place (see
`defect.defect`). The class's docstring says what the server then does; `conformance defects` and docs/defects.md print it. Methods of
these classes are therefore wrong on purpose.
"""
