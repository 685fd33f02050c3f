"""Disks that fail under a node's queue: a power cut that loses what was not synced, a disk that is full, read-only or slow.

`node_disk` is the disk of one node. It is made of `loop`, a file system of its own on a loop device (needs root), and
`layer`, a library between a program and its C library (needs a C compiler).
"""
