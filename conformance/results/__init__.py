"""The run directory: record schemas, writing, reading, merging, compression, and Parquet tables.

Running a suite writes a run directory; judging again, reports, exports and Spark read it and nothing else of the run.
A killed run leaves a directory that can be read (`writer`, `reader`).
"""
