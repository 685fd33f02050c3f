"""No file that a run leaves contains a password in any encoding, although the servers send and print it in many ways."""

import base64
import gzip
import json
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

import pytest

from conformance.results.parquet import write_parquet
from tests.suite.helpers import conformance_command

SECRET, UNKNOWN = "between-one-and-two", "known-to-the-servers-alone"

SCENARIO = f"""\
id: spread
title: Servers disclose their password
requirements: [RL-ACK-01]
needs: [relay]
topology:
  name: two-with-a-secret
  servers:
    - {{name: mta1, generation: ex2016, role: mailbox, site: a, dag: d}}
    - {{name: mta2, generation: ex2016, role: mailbox, site: a, dag: d}}
  rights:
    - {{server: mta2, peer: mta1, secret: {SECRET}}}
    - {{server: mta1, peer: mta2, secret: {SECRET}}}
axes: {{code: [535, 250]}}
steps:
  - talk:
      as: spoken
      to: mta1
      lines:
        - {{code: 220}}
        - {{say: EHLO outside.test, code: 250}}
        - {{say: TELL, code: 250}}
        - {{say: NOOP, code: "${{code}}"}}
  - expect: {{conversation: {{conversation: spoken}}}}
"""

PROGRAM = f"""
import asyncio, base64, json, sys
own = json.load(open(sys.argv[1]))
secret = next(peer["secret"] for peer in own["peers"] if peer["secret"])
code = lambda text: base64.b64encode(text.encode()).decode()
def ways(word):
    plain, user, password = code("\\0mta1\\0" + word), code("mta1"), code(word)
    yield [f"AUTH PLAIN {{plain}}"]
    yield [f"AUTH\\tPLAIN {{plain}}"]
    yield ["AUTH LOGIN", user, password]
    yield ["AUTH\\tLOGIN", user, password]
    yield ["auth login " + user, password]
async def tell():
    for host, port in [tuple(peer["dial"]["transport"]) for peer in own["peers"] if peer["secret"]]:
        for word in (secret, {UNKNOWN!r}):
            for ahead in (False, True):
                for way in ways(word):
                    reader, writer = await asyncio.open_connection(host, port)
                    await reader.readline()
                    if ahead:
                        writer.write("".join(line + "\\r\\n" for line in way).encode())
                        for _ in way: print(await reader.readline(), flush=True)
                    else:
                        for line in way:
                            writer.write(line.encode() + b"\\r\\n"); print(await reader.readline(), flush=True)
                    writer.close()
async def serve(reader, writer):
    writer.write(b"220 here\\r\\n")
    while line := await reader.readline():
        if line.startswith(b"QUIT"): break
        if line.startswith(b"TELL"):
            await tell(); writer.write(f"250 sent {{secret}} {UNKNOWN}\\r\\n".encode())
        elif line.startswith(b"EHLO"): writer.write(f"250 AUTH PLAIN LOGIN {{code(secret)}}\\r\\n".encode())
        elif b"LOGIN" in line.upper() and own["name"] == "mta2": writer.write(b"350 " + line)
        else: writer.write(b"535 you said " + line)
    writer.close()
async def main():
    print("my password is", secret, code("\\0a\\0" + secret), flush=True)
    open("/".join(sys.argv[1].split("/")[:-1]) + "/own.conf", "w").write("password = " + secret)
    for door in own["listeners"].values(): await asyncio.start_server(serve, door["host"], door["port"])
    await asyncio.Event().wait()
asyncio.run(main())
"""


def encodings(secret: str) -> dict[str, bytes]:
    """Return a secret in each encoding; of Base64, the characters that depend on no neighbouring octet."""
    octets = secret.encode()
    found = {"plain": octets, "hex": octets.hex().encode(), "quoted": quote(secret, safe="").encode()}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + octets)
        found[f"base64 at {offset}"] = encoded[-(-offset * 8 // 6) : (offset + len(octets)) * 8 // 6]
    return found


def contents(folder: Path) -> dict[str, bytes]:
    """Return the octets of every file below, packed and unpacked, and the values of Parquet files."""
    found: dict[str, bytes] = {}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        name, octets = str(path.relative_to(folder)), path.read_bytes()
        found[name] = octets
        if path.suffix == ".gz":
            found[f"{name} unpacked"] = gzip.decompress(octets)
        elif path.suffix == ".zip":
            with ZipFile(path) as archive:
                found |= {f"{name} {one}": archive.read(one) for one in archive.namelist()}
        elif path.suffix == ".parquet":
            from pyarrow import parquet

            found[f"{name} values"] = json.dumps(parquet.ParquetFile(path).read().to_pylist(), default=str).encode()
    return found


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_no_file_that_a_run_leaves_has_a_password_in_it(tmp_path: Path):
    pytest.importorskip("pyarrow")
    (tmp_path / "spread.scenario.yaml").write_text(SCENARIO, "utf-8")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, "utf-8")
    described = {
        "name": "talkative", "kind": "exec", "claims": ["relay"], "argv": ["{python}", str(script), "{config}"],
        "stop-within": 2,
    }  # fmt: skip
    (tmp_path / "talkative.yaml").write_text(json.dumps(described), "utf-8")
    left = tmp_path / "left"
    ran = conformance_command(
        "run", "spread.scenario.yaml", "--candidate", "talkative.yaml", "--clock", "scaled", "--scale", "60",
        "--run-dir", "left/run", "--alluredir", "left/allure", "--keep", "failed", "--junit-xml", "left/junit.xml",
        cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 1, "one cell passes, and reports show the exchange of the other"
    left.joinpath("terminal").write_text(ran.stdout + ran.stderr, "utf-8")
    reported = conformance_command("report", "left/run", "--out", "left/site", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    write_parquet(left / "run")
    found = contents(left)
    history = next(octets for name, octets in found.items() if name.endswith("unpacked"))
    assert history.count(b"you said") > 20, "the servers have sent it"
    assert history.count(b"(redacted)") > 40
    assert any("own.conf" in name for name in found)
    for kind in ("terminal", "junit.xml", "allure/", "site/cells/", ".parquet values", ".zip ", "/kept/"):
        assert any(kind in name and b"(redacted)" in octets for name, octets in found.items()), kind
    leaks = [
        f"{name}: {how} of {secret}"
        for name, octets in found.items()
        for secret in (SECRET, UNKNOWN)
        for how, written in encodings(secret).items()
        if written in octets
    ]
    assert leaks == []
