"""Other readings of the documents that conform as well as the reference's own, each by a name, to test the harness.

A reading is a class whose methods come before those of a component of the reference (see `reading.reading`). A check that fails a
server for one of these is stricter than the documents.
"""
