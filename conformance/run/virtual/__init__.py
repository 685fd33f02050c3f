"""Virtual time on real loopback sockets: an event loop whose clock jumps when nothing is under way.

`loop` decides when to jump, `ledger` knows what the kernel still owes, `seams` holds every private name of asyncio.
"""
