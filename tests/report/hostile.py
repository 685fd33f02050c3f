"""A node that follows SMTP, and whose replies contain markup, escapes and commands of every output format."""

MARK = "GrüßeHOSTILE"
"""Is in every hostile text, so that tests find the text in an output."""

EVIL = (
    b'<script>alert("1")</script><img src=x onerror=alert(1)>\'"&amp; ]]> -->'  # HTML, XML
    b" \x1b[2J\x1b]0;pwned\x07\x08\x7f"  # terminals
    + " \u202eevil\u2066\u2069\u200b\ufeff\u2028".encode()  # bidi, zero width, line separator
    + b" \xff\xfe\xc0\xaf\xed\xa0\x80"  # no UTF-8
    b" `*_[x](javascript:alert(1))|~#"  # Markdown
    b" ##[add-mask]mta1 ::error::x %0A ${jndi:x} =1+1 {{7*7}} {% x %}"  # GitHub, spreadsheets, templates
)

SERVER = f"""
import asyncio, json, signal, sys
EVIL = {MARK.encode()!r} + {EVIL!r}
async def main():
    listeners = json.load(open(sys.argv[1]))["listeners"]
    async def serve(reader, writer):
        def say(code, last=b" "):
            writer.write(code + last + EVIL + b"\\r\\n")
        say(b"220")
        while line := await reader.readline():
            verb = line.split()[0].upper() if line.split() else b""
            if verb == b"EHLO":
                writer.write(b"250-mta1\\r\\n"); say(b"250")
            elif verb == b"DATA":
                say(b"354")
                while await reader.readline() not in (b".\\r\\n", b""):
                    pass
                say(b"550")
            elif verb == b"QUIT":
                say(b"221"); break
            else:
                say(b"250")
        writer.close()
    for listener in listeners.values():
        await asyncio.start_server(serve, listener["host"], listener["port"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, sys.exit, 0)
    sys.stdout.buffer.write(EVIL + b"\\n"); sys.stdout.buffer.flush()
    await asyncio.Event().wait()
asyncio.run(main())
"""

SCENARIO = """\
id: taken
title: A message is accepted
requirements: [RL-CNT-01]
needs: [relay]
topology: relay
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
"""
"""The node refuses the message with a hostile final reply: the violation points at it."""
