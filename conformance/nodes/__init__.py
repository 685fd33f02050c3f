"""The node contract and its kinds: python, exec, docker, remote.
Everything here is the harness's side of starting, stopping and configuring a node under test.
"""
