"""The run directory: its schemas, the writers that survive being killed, the readers, and merging.
It is the contract between running and everything that reads afterwards.
"""
