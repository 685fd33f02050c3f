"""Candidates: descriptions of servers under test, in YAML, and the words of the command line that name them.
How a description's templates are filled in stands here too; how a server is started from one is conformance.nodes'.
Schema: `conformance schema candidate`; the ones that come with the harness: fixtures/candidates.
"""
