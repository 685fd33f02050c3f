"""Small programs that misbehave as nodes, and one that behaves well (GREETS)."""

GREETS = """
import asyncio, json, signal, sys
async def main():
    listeners = json.load(open(sys.argv[1]))["listeners"]
    async def serve(reader, writer):
        writer.write(b"220 here\\r\\n")
        await reader.readline()
        writer.write(b"221 bye\\r\\n")
        writer.close()
    for listener in listeners.values():
        await asyncio.start_server(serve, listener["host"], listener["port"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 0)
    await asyncio.Event().wait()
asyncio.run(main())
"""

LEAVES_AT_ONCE = "import sys; print('no licence file', file=sys.stderr); sys.exit(3)"

REFUSES = "import sys; print('transport.Bogus: unknown parameter', file=sys.stderr); sys.exit(2)"

NEVER_LISTENS = "import time; time.sleep(3600)"

SAYS_NOTHING = """
import json, socket, sys, time
held = []
for listener in json.load(open(sys.argv[1]))["listeners"].values():
    s = socket.create_server((listener["host"], listener["port"])); held.append(s)
time.sleep(3600)
"""

SPEAKS_HTTP = GREETS.replace("220 here", "HTTP/1.1 400 Bad Request")

GREETS_WITH_554 = GREETS.replace("220 here", "554 no service")

IGNORES_SIGTERM = GREETS.replace(
    "add_signal_handler(signal.SIGTERM, sys.exit, 0)", "add_signal_handler(signal.SIGTERM, int)"
)

DAEMONISES = (
    """
import os, sys, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".grandchild", "w") as file:
            file.write(str(os.getpid()))
        os.write(writing, b".")
        time.sleep(3600)
    os._exit(0)
os.read(reading, 1)
"""
    + GREETS
)
