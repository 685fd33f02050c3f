"""The smuggling matrix: what counts as one message and as two, between servers in this process and between real ones."""

import asyncio
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import paths
from conformance.cli import main
from conformance.commands.smuggling import _exit_code, _print_pairs
from conformance.probe.end_of_data import SENDER, SMUGGLED_SENDER, VARIANTS
from conformance.probe.server import Server
from conformance.smuggling import matrix
from conformance.smuggling.matrix import Arrivals, Passage, Passed, _decide_passage, _rounds, _run_rounds, _try_pair
from conformance.smuggling.page import _relay_badge, smuggling_page
from conformance.testing import ReceivedMessage

# Its content ends at LF . LF too, and it passes bare line ends on.
LOOSE = """\
name: loose
kind: exec
claims: [relay]
listeners: [frontend]
argv: ["{python}", "{directory}/serve.py"]
files:
  serve.py: |
    import asyncio, socket
    {% set listener = node.listeners.frontend %}
    {% set hop = (node.routes | selectattr("domain", "equalto", "*") | first).next_hops[0] %}
    LOOSE, NEXT = LOOSENESS, ({{ hop.dial[0] | tojson }}, {{ hop.dial[1] }})
    ENDS = (b"\\r\\n.\\r\\n", b"\\n.\\n") if LOOSE else (b"\\r\\n.\\r\\n",)

    def hand_on(sender, recipients, content):
        with socket.create_connection(NEXT) as out, out.makefile("rwb") as file:
            file.readline()
            for line in (b"HELO loose.test", b"MAIL " + sender, *(b"RCPT " + one for one in recipients), b"DATA"):
                file.write(line + b"\\r\\n"), file.flush(), file.readline()
            file.write(content + b"\\r\\n.\\r\\n"), file.flush(), file.readline()

    async def serve(reader, writer):
        buffer, sender, recipients = b"", b"", []
        writer.write(b"220 loose.test\\r\\n")
        while True:
            while b"\\r\\n" not in buffer:
                if not (more := await reader.read(65536)):
                    return writer.close()
                buffer += more
            line, _, buffer = buffer.partition(b"\\r\\n")
            verb, _, argument = line.partition(b" ")
            reply = b"250 ok"
            if verb == b"MAIL":
                sender, recipients = argument, []
            elif verb == b"RCPT":
                recipients.append(argument)
            elif verb == b"QUIT":
                writer.write(b"221 bye\\r\\n")
                return writer.close()
            elif verb == b"DATA":
                writer.write(b"354 go on\\r\\n")
                while not (found := [(buffer.index(end), end) for end in ENDS if end in buffer]):
                    buffer += await reader.read(65536)
                at, end = min(found)
                content, buffer = buffer[:at], buffer[at + len(end):]
                await asyncio.to_thread(hand_on, sender, recipients, content)
            writer.write(reply + b"\\r\\n")

    async def main():
        async with await asyncio.start_server(serve, {{ listener.host | tojson }}, {{ listener.port }}) as server:
            await server.serve_forever()
    asyncio.run(main())
"""


@pytest.mark.parametrize("names", ["a", "ab", "abc", "abcd"])
def test_every_pair_is_in_one_round_and_no_server_twice_in_one_role_of_a_round(names: str):
    rounds = list(_rounds(list(names)))
    assert sorted(pair for pairs in rounds for pair in pairs) == sorted((x, y) for x in names for y in names)
    for pairs in rounds:
        assert sorted(x for x, _ in pairs) == sorted(y for _, y in pairs) == list(names)


@pytest.mark.parametrize(
    ("accepted", "replies", "came", "passage"),
    [
        (True, ["250 ok"], [SENDER], Passage.ONE),
        (True, ["250 ok"], [SENDER, SMUGGLED_SENDER], Passage.SMUGGLED),
        (True, ["250 ok", "250 ok"], [SENDER, SMUGGLED_SENDER], Passage.SPLIT),
        (False, ["554 no"], [], Passage.REFUSED),
        (True, ["250 ok"], [""], Passage.RETURNED),
        (True, ["250 ok"], [], Passage.NOT_ARRIVED),
        (True, ["250 ok"], ["other"], Passage.NOT_ARRIVED),
    ],
)
def test_what_became_of_a_variant(accepted: bool, replies: list[str], came: list[str], passage: Passage):
    server = Server(("127.0.0.1", 25), 1)
    other = Server(("127.0.0.1", 25), 1)
    arrivals = Arrivals(server)

    def message(sender: str) -> ReceivedMessage:
        mark = (other if sender == "other" else server).mark("lf-dot-lf")
        header = f"Message-ID: <{'smuggled-' if sender == SMUGGLED_SENDER else ''}{mark}@probe.test>\r\n\r\n"
        content = f"Subject: report\r\n\r\n{header}" if sender == "" else header
        return ReceivedMessage(SENDER if sender == "other" else sender, (), content.encode())

    arrivals.read([message(sender) for sender in came])
    assert _decide_passage("lf-dot-lf", accepted, replies, arrivals) == passage


def squares_of(page: str) -> dict[tuple[str, str], str]:
    """Return the text of each pair's badge on the page."""
    table = page.partition("From relay to receiver")[2].partition("</table>")[0]
    receivers = re.findall(r'<th scope="col">to (.*?)</th>', table)
    return {
        (relay, receiver): text
        for relay, squares in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
        for receiver, text in zip(receivers, re.findall(r"</span> ([^<]+)</span>", squares), strict=True)
    }


def test_the_page_has_every_pair_and_escapes_what_it_shows():
    results = [
        Passed("a<b>", receiver, variant, passage, ())
        for receiver in ("a<b>", "c", "d")
        for variant, passage in (("lf<dot>lf", Passage.SMUGGLED), ("cr-dot-cr", Passage.ONE))
    ]
    results += [Passed("c", receiver, "lf<dot>lf", Passage.SPLIT, ()) for receiver in ("a<b>", "c", "d")]
    results += [Passed("d", receiver, "lf<dot>lf", Passage.REFUSED, ()) for receiver in ("a<b>", "c")]
    results += [Passed("d", "d", "lf<dot>lf", Passage.ONE, ())]
    page = smuggling_page(results)
    assert squares_of(page) == {
        **{("a&lt;b&gt;", receiver): "1 smuggled" for receiver in ("a&lt;b&gt;", "c", "d")},
        **{("c", receiver): "1 split" for receiver in ("a&lt;b&gt;", "c", "d")},
        **{("d", receiver): "none arrived" for receiver in ("a&lt;b&gt;", "c")},
        ("d", "d"): "none",
    }
    assert page.count("1 smuggled") == 3 + 3, "the badge, and the counts"
    for name, escaped in (("a<b>", "a&lt;b&gt;"), ("lf<dot>lf", "lf&lt;dot&gt;lf")):
        assert escaped in page
        assert name not in page


def test_a_relay_shows_one_message_only_where_one_arrived():
    results = [
        Passed("r", "s", variant, passage, ())
        for variant, passages in (
            ("lf-dot-lf", (Passage.NOT_ARRIVED, Passage.RETURNED)),
            ("cr-dot-cr", (Passage.REFUSED, Passage.NOT_ARRIVED)),
            ("lf-dot-crlf", (Passage.ONE, Passage.NOT_ARRIVED)),
            ("crlf-dot-lf", (Passage.REFUSED,)),
            ("cr-dot-crlf", (Passage.NOT_ARRIVED, Passage.SMUGGLED)),
            ("crlf-dot-cr", (Passage.ONE, Passage.SPLIT)),
        )
        for passage in passages
    ]
    badges = {
        variant: _relay_badge([p for p in results if p.variant == variant]) for variant in (p.variant for p in results)
    }
    assert badges == {
        "lf-dot-lf": ("inconclusive", "none arrived"),
        "cr-dot-cr": ("inconclusive", "none arrived"),
        "lf-dot-crlf": ("pass", "one message"),
        "crlf-dot-lf": ("pass", "refused"),
        "cr-dot-crlf": ("pass", "one message"),  # of which the receiver made two
        "crlf-dot-cr": ("fail", "two messages"),
    }
    assert _relay_badge([]) == ("not-applicable", "not sent")


def test_a_relay_that_has_ended_refuses_every_variant_and_keeps_the_results_of_other_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    async def try_pair(relay_name: str, relay: Any, receiver_name: str, receiver: Any) -> list[Passed]:
        if relay_name == "b":
            return [Passed("b", receiver_name, "lf-dot-lf", Passage.ONE, ())]
        return await _try_pair(relay_name, relay, receiver_name, receiver)

    monkeypatch.setattr(matrix, "_try_pair", try_pair)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, and not listening
        hop = SimpleNamespace(
            connect_to=lambda host, port: None,
            end_sessions=lambda within: None,
            wait_until=lambda condition, within: condition([]),
        )
        node: Any = SimpleNamespace(host="127.0.0.1", port=closed.getsockname()[1], next_hop=hop)
        results = asyncio.run(_run_rounds({"a": (node, node), "b": (node, node)}, lambda text: None))
    of_ended = [passed for passed in results if passed.relay == "a"]
    assert sorted((passed.receiver, passed.variant) for passed in of_ended) == sorted(
        (receiver, v.name) for receiver in "ab" for v in VARIANTS.values() if not v.chunked
    )
    assert {passed.passage for passed in of_ended} == {Passage.REFUSED}
    assert all("refused" in passed.replies[0].lower() for passed in of_ended)
    assert {(p.relay, p.receiver) for p in results if p.passage is Passage.ONE} == {("b", "a"), ("b", "b")}
    _print_pairs(results, tmp_path)
    assert capsys.readouterr().out == (
        f"nothing came through from a to a\nnothing came through from a to b\npage: {tmp_path / 'index.html'}\n"
    )
    assert _exit_code(results) == 3


def test_an_unknown_candidate_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        main(["smuggling", "postfx", "--out", str(tmp_path)])
    assert left.value.code == 2
    assert "postfx" in capsys.readouterr().err


def passages(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Return the passage of each variant of each pair."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for entry in json.loads((folder / "smuggling.json").read_text("utf-8")):
        found.setdefault((entry["relay"], entry["receiver"]), {})[entry["variant"]] = entry["passage"]
    return found


@pytest.mark.long
@pytest.mark.integration
def test_a_relay_that_passes_a_lone_dot_on_smuggles_it_into_one_that_ends_content_there(tmp_path: Path):
    files = {}
    for name, looseness in (("loose", "True"), ("strict", "False")):
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(LOOSE.replace("LOOSENESS", looseness).replace("name: loose", f"name: {name}"), "utf-8")
    with pytest.raises(SystemExit) as left:
        main(["smuggling", *map(str, files.values()), "--out", str(tmp_path / "out")])
    assert left.value.code == 1
    found = passages(tmp_path / "out")
    assert set(found) == {(a, b) for a in files for b in files}
    assert {v for v, p in found["strict", "loose"].items() if p == "smuggled"} == {"lf-dot-lf", "crlf-dot-lf"}
    assert {v for v, p in found["loose", "strict"].items() if p == "split-by-relay"} == {"lf-dot-lf", "crlf-dot-lf"}
    assert set(found["strict", "strict"].values()) == {"one"}
    assert len(found["strict", "strict"]) == sum(not variant.chunked for variant in VARIANTS.values())
    assert "2 smuggled" in (tmp_path / "out" / "index.html").read_text("utf-8")


@pytest.mark.integration
@pytest.mark.slow  # a server that is not installed is downloaded
def test_postfix_ends_content_early_unless_it_normalizes_line_ends(tmp_path: Path):
    assert (paths.fixtures() / "candidates" / "postfix-normalize.yaml").exists()
    with pytest.raises(SystemExit) as left:
        main(["smuggling", "postfix", "postfix-normalize", "--out", str(tmp_path)])
    assert left.value.code == 1
    found = passages(tmp_path)
    for receiver in ("postfix", "postfix-normalize"):
        split = {variant for variant, passage in found["postfix", receiver].items() if passage == "split-by-relay"}
        assert {"lf-dot-lf", "lf-dot-crlf", "crlf-dot-lf", "crlf-dot-cr-crlf"} <= split
        assert set(found["postfix-normalize", receiver].values()) == {"one"}
