"""The data pipeline: run directories in, tables and pages out.
It reads what conformance.results wrote and nothing else.
"""
