"""Makes bad files of good ones, by a seed: the same seed always gives the same octets.

Octet-level mutators know nothing of a format. Those of lines, of YAML and of JSON know as much as it takes to come past
the first check: what is wrong then is deep inside of a document that is right everywhere else.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutator = Callable[[random.Random, bytes], bytes]

MOST = 2**20
"""Octets of a mutated file, about: a mutation that doubles is not done again and again."""


def mutated(seed: int, octets: bytes, mutators: tuple[Mutator, ...]) -> bytes:
    """Return octets after one to four mutations."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 3, 4))):
        octets = rng.choice(mutators)(rng, octets)[: 4 * MOST]
    return octets


def _place(rng: random.Random, octets: bytes) -> int:
    return rng.randrange(len(octets) + 1)


def flip_bits(rng: random.Random, octets: bytes) -> bytes:
    """Flip some bits."""
    changed = bytearray(octets or b"x")
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng: random.Random, octets: bytes) -> bytes:
    """Cut the end off."""
    return octets[: _place(rng, octets)]


def cut_out(rng: random.Random, octets: bytes) -> bytes:
    """Take some octets out of the middle."""
    at = _place(rng, octets)
    return octets[:at] + octets[at + rng.choice((1, 2, 7, 100, 1000)) :]


def insert(rng: random.Random, octets: bytes) -> bytes:
    """Put octets in that are trouble somewhere: NUL, no UTF-8, other ends of lines, markup, very long runs."""
    evil = rng.choice(
        (
            b"\0", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\x85", b"\xe2\x80\xa8",
            b"\xe2\x80\xae", b"\x1b[2J", b"\t", b"\x7f", b"\n---\n", b"\n...\n", b"%YAML 1.1\n", b"&a ", b"*a", b"!!int ",
            b"!!python/object:os.system ", b"<<: *a\n", b"? ", b": ", b"- ", b"{", b"[", b"}", b"]", b'"', b"'", b"#", b"|",
            b">", b"${x}", b"${", b"{{ 7 * 7 }}", b"{% for x in range(9) %}", b"A" * 5000, b" " * 5000, b"[" * 5000,
            b'{"a":' * 5000, b"\n" * 5000, b"9" * 5000,
        )
    )  # fmt: skip
    at = _place(rng, octets)
    return octets[:at] + evil + octets[at:]


def shuffle(rng: random.Random, octets: bytes) -> bytes:
    """Copy some octets over others."""
    at, to = _place(rng, octets), _place(rng, octets)
    piece = octets[at : at + rng.choice((1, 16, 256))]
    return octets[:to] + piece + octets[to + len(piece) :]


def lines_of(rng: random.Random, octets: bytes) -> bytes:
    """Delete, double, swap or move lines."""
    lines = octets.splitlines(keepends=True) or [b"\n"]
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at : at + rng.choice((1, 1, 3, 10))]
        case 1:
            lines[at:at] = lines[at : at + rng.choice((1, 1, 5))] * rng.choice((1, 1, 2, 50))
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines.insert(to, lines.pop(at))
        case _:
            lines[at] = rng.choice((b" ", b"  ", b"\t")) + lines[at]
    return b"".join(lines)


OCTETS: tuple[Mutator, ...] = (flip_bits, truncate, cut_out, insert, shuffle, lines_of)

_SCALAR = re.compile(rb"(?<=[:\-\[,{] )[^\s\[\]{},#][^\n\[\]{},#]*")

WORDS = (
    "", "~", "null", "true", "yes", "no", "0", "-1", "1.5", "1e400", "-0", "0x" + "f" * 30, "0x" + "f" * 5000, "9" * 30,
    "9" * 400, "9" * 5000, "9" * 400 + "d", "1" * 8000 + "m", ".inf", ".nan", "2001-99-99", "2001-01-01", "12:30:45",
    "0o777", "1_000", "999999999999MB", "999PB", "1000000000000000 MB", "365000d", "-5m", "!!int foo", "!!float x",
    "!!binary aGk=", "!!timestamp 2001-99-99", "!!set {a}", "!<tag:x> y", "! x", "&a x", "*a", "*nobody", "&a [*a]",
    "&a {b: *a}", "[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]", "{a: {b: {c: {d: e}}}}", "[1, [2, [3]]]", "../x",
    "/etc/passwd", "../../../../etc/passwd", "x/../../y", "/dev/zero", "..", ".", "a\\0b", '"a\\0b"', '"\\uD800"',
    '"\\x1b[2J"', "'<script>alert(1)</script>'", "${x}", "${own-warnings}", "'${message'", "all", "*", "none", "mbx1",
    "nobody", "m#1", "m#0", "m#99999999999999999999", "m#" + "9" * 5000, "a" * 61, "a" * 70000, "'" + "(a+)+" * 20 + "$'",
    "'('", "'(?P<server>x)(?P<nope>y)'", "[a, a]", "{}", "[]", "[null]", "{null: 1}", "? x", "|", ">-", "@x", "`x`", "%x",
    "=", "<<", "10000000", "5000", "1001", "18446744073709551616", "9223372036854775808", "-9223372036854775809",
)  # fmt: skip
"""What stands in place of a value: of another type, out of every range, or with a meaning elsewhere."""


def yaml_value(rng: random.Random, octets: bytes) -> bytes:
    """Put something else in place of a scalar."""
    found = list(_SCALAR.finditer(octets))
    if not found:
        return insert(rng, octets)
    match = rng.choice(found)
    # Another value of the same file, or one of the words.
    word = rng.choice(found)[0] if rng.random() < 0.4 else rng.choice(WORDS).encode()
    return octets[: match.start()] + word + octets[match.end() :]


def yaml_key(rng: random.Random, octets: bytes) -> bytes:
    """Change, double or move a key."""
    found = list(re.finditer(rb"(?m)^( *(?:- )?)([\w-]+):", octets))
    if not found:
        return insert(rng, octets)
    match = rng.choice(found)
    other = rng.choice(found)[2]
    new = rng.choice(
        (
            other,
            match[2] + b"x",
            b"",
            b'"' + match[2] + b'"',
            b"<<",
            b"? " + match[2],
            b"1",
            b"true",
            b"null",
            b"[a]",
            b"x" * 1500,
        )
    )
    return octets[: match.start(2)] + new + octets[match.end(2) :]


def yaml_bomb(rng: random.Random, octets: bytes) -> bytes:
    """Add a key with aliases of aliases, many rules, many values or a deep value, below one that is there."""
    bombs = (
        "bomb: " + "[" * 2000 + "]" * 2000,
        "bomb: " + "{a: " * 500 + "}" * 500,
        "b0: &b0 [x, x, x, x, x, x, x, x]\n"
        + "\n".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 8)}]" for n in range(1, 9)),
        "axes: {" + ", ".join(f"a{n}: [{', '.join(map(str, range(10)))}]" for n in range(9)) + "}",
        "axes: {a: [" + ", ".join(map(str, range(4999))) + "]}",
        "exclude: [" + ", ".join("{a: 1}" for _ in range(1500)) + "]",
        "steps: [" + ", ".join("{drain: 1s}" for _ in range(3000)) + "]",
        "servers: [" + ", ".join(f"{{name: s{n}, site: x}}" for n in range(2000)) + "]",
        "cells: [" + ", ".join(f"c{n}" for n in range(19_000)) + "]",
        "x: " + "y" * 200_000,
    )
    return octets + b"\n" + rng.choice(bombs).encode() + b"\n"


YAML: tuple[Mutator, ...] = (*OCTETS, yaml_value, yaml_value, yaml_value, yaml_value, yaml_key, yaml_bomb)

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 250, 999, 10**18, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e308, -1e308, "", " ", "s1",
    "s999", "m#1", "mbx1", "nobody", "pass", "fail", "error", "event", "cell", "footer", "connected", "a\0b", "\u202e", "\x1b[2J",
    "<script>alert(1)</script>", "=1+1", "../../x", "x" * 70_000, [], {}, [None], [[]], {"a": 1}, [1, "2", None], "virtual",
    {"queues": 5}, {"name": "x"}, {"servers": [{}]}, "2026-99-99T99:99:99Z", "é" * 200,
)  # fmt: skip


def json_value(rng: random.Random, octets: bytes) -> bytes:
    """Change a value of a JSON document; of several on lines, of one of them."""
    lines = octets.split(b"\n")
    at = rng.choice([n for n, line in enumerate(lines) if line.strip()] or [0])
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return flip_bits(rng, octets)
    lines[at] = json.dumps(_changed(rng, value), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _changed(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a JSON value with something in it that is not what it was."""
    if isinstance(value, dict) and value and (depth == 0 or rng.random() < 0.7):
        key = rng.choice(list(value))
        match rng.randrange(8):
            case 0:
                return {name: inner for name, inner in value.items() if name != key}
            case 1:
                return {**value, rng.choice(("x", "", "record", "n", "kind", "schema", key + "x")): value[key]}
            case 2:
                other = rng.choice(list(value))
                return {**value, key: value[other]}
            case _:
                return {**value, key: _changed(rng, value[key], depth + 1)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value, value[at]] * rng.choice((1, 1, 20))
            case _:
                return [*value[:at], _changed(rng, value[at], depth + 1), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + rng.choice((-1, 1, 10, -(10**9), 10**9))
    return rng.choice(VALUES)


def json_swap(rng: random.Random, octets: bytes) -> bytes:
    """Give a key of one line the value that the same key has in another: everything is of its type, and wrong."""
    found = list(re.finditer(rb'"(\w+)":("[^"\\]*"|-?[0-9.]+|true|false|null|\[[^\[\]{}]*\])', octets))
    if not found:
        return flip_bits(rng, octets)
    match = rng.choice(found)
    other = rng.choice([one for one in found if one[1] == match[1]])
    return octets[: match.start(2)] + other[2] + octets[match.end(2) :]


def json_text(rng: random.Random, octets: bytes) -> bytes:
    """Put something in that is JSON nowhere, or elsewhere: NaN, deep nesting, doubled keys, very large numbers."""
    evil = rng.choice(
        (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 5000, b'{"a":' * 3000, b'"\\ud800"', b'"\\u0000"', b"0x1", b"+1", b"01", b"'x'", b"/*x*/", b'{"n":0,"n":1}')
    )  # fmt: skip
    found = list(re.finditer(rb"(?<=:)(?:-?[0-9.]+|\"[^\"]*\"|true|false|null)", octets))
    if not found:
        return evil
    match = rng.choice(found)
    return octets[: match.start()] + evil + octets[match.end() :]


JSON: tuple[Mutator, ...] = (
    *OCTETS,
    json_swap,
    json_swap,
    json_swap,
    json_swap,
    json_swap,
    json_value,
    json_value,
    json_value,
    json_value,
    json_value,
    json_text,
)

REPLY_LINES: tuple[bytes, ...] = (
    b"250 ok\r\n", b"250-\r\n", b"250\r\n", b"25\r\n", b"999 x\r\n", b"000 x\r\n", b"250-a\r\n550 b\r\n", b"-1 x\r\n", b"354 go\r\n",
    b"250 " + b"x" * 70_000 + b"\r\n", b"250-" * 30_000, b"250-x\r\n" * 25_000, b"\r\n" * 1000, b"\0\0\0", b"250 \xff\xfe\r\n", b"250 ok\n",
    b"250 ok\r", b"235 2.7.0 ok\r\n", b"220 ready\r\n", b"421 4.3.2 away\r\n", b"250-SIZE 99999999999999999999999\r\n", b"334 \r\n",
    b"250 2.0.0 XSHADOW\r\n", b"250 XDISCARDED 999999999999999999999999 a;b;c\r\n", "250 \u0665\u0665\u0665\r\n".encode(), "\u0662\u0665\u0660 ok\r\n".encode(),
)  # fmt: skip


def reply_line(rng: random.Random, octets: bytes) -> bytes:
    """Put a line of a server in that it should not say, or say so."""
    lines = octets.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines) + 1)
    return b"".join([*lines[:at], rng.choice(REPLY_LINES), *lines[at + rng.randrange(2) :]])


REPLY: tuple[Mutator, ...] = (*OCTETS, reply_line, reply_line, reply_line)
