"""The node contract and its kinds: python, exec, docker, remote. A node is one running server under test.

Everything here is the harness's side of starting, stopping and configuring a node.
"""
