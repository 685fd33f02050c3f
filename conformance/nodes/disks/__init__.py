"""Disks that fail under a node's queue: a power cut that forgets what was not synced, a disk that is full, read-only or
slow. `loop` is a file system of its own on a loop device (needs root); `layer` comes between a program and its C
library (needs a C compiler); `choice` says which of them a node gets, or why none."""
