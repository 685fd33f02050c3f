"""The harness's side of every TCP connection of a cell.

`links` lays relays between the parties, which record and disturb each session; `sender` and `talk` are SMTP clients of the
harness, `sinks` its SMTP and LMTP servers. Everything runs in one event loop, on loopback unless a candidate is remote or in
a container, and in virtual time as in real time.

How the modules depend on each other, from the bottom:

- `units`, `lines`, `session_parser`: octets of both directions in, units (command line, reply, content) out; no I/O.
- `endpoint`, `lane`, `relay`: one session. Two endpoints (TCP connections), two lanes (directions), one parser.
- `link`, `links`: a listening address for each pair of parties that may connect, and the sessions over it.
- `fault_plan`, `faults`, `fault_injector`: faults, partitions and moments, and what they do to sessions.
"""
