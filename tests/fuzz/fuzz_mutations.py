"""Damaging bytes, JSON and files at random, the way disks, strangers and other versions do.

In: a `random.Random` and something whole. Out: the same, damaged; always in bounded time.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Raw JSON texts, since Python cannot write some of them.
HOSTILE_JSON = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "1e308",
    str(2**31),
    str(2**63),
    str(2**64 + 1),
    "-" + "9" * 30,
    "9" * 400,
    "0." + "3" * 60,
    '""',
    '"0"',
    '"-1"',
    '"NaN"',
    '"Infinity"',
    '"x"',
    '"../../../etc/passwd"',
    '"/"',
    '"~nobody/x"',
    '"\\u0000"',
    '"\\ud800"',
    '"\\u001b[2J\\u0007"',
    '"\\n\\r\\n"',
    json.dumps("a" * 5000),
    json.dumps("\u202e" * 50),
    json.dumps("é" * 300),
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '{"": null}',
    '["a", 1, {}]',
    "[" * 100 + "]" * 100,
    "[" * 100_000,
    '{"a":' * 200 + "1" + "}" * 200,
    json.dumps(list(range(2000))),
    json.dumps({str(i): i for i in range(2000)}),
    '{"schema": 2}',
    '{"items": 3}',
    '"ok"',
    '"signal"',
    '"SIGKILL"',
    '"ended"',
    '"running"',
]
HOSTILE_BYTES = [
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b"\r\n",
    b"\x1b[31m",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"NaN",
    b"1e999",
    b"9" * 500,
    b"-1",
    b"'" * 3,
    b'"""',
    b"\xf0\x9f\x92\xa5",
    b"\xc3",
    b"a" * 5000,
    b"\0" * 5000,
    b"((((((((((",
    b" " * 5000,
    b"\t" * 300,
    b"%s%n",
    b"{0}",
    b"$(id)",
]


def mutate_bytes(rng: random.Random, data: bytes, words: list[bytes] | None = None) -> bytes:
    """One to six changes: bits, cuts, repeats, swaps, and words that matter to the reader."""
    octets = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(octets) + 1)
        length = rng.choice((1, 1, 4, 16, 200, len(octets)))
        kind = rng.randrange(9)
        if kind == 0 and octets:
            octets[at % len(octets)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del octets[at : at + length]
        elif kind == 2:
            octets[at:at] = octets[at : at + length] * rng.choice((1, 2, 50))
        elif kind == 3:
            octets[at:at] = rng.choice(HOSTILE_BYTES)
        elif kind == 4 and words:
            octets[at:at] = rng.choice(words)
        elif kind == 5:
            octets[at : at + length] = rng.randbytes(min(length, 64))
        elif kind == 6:
            del octets[at:]
        elif kind == 7:
            other = rng.randrange(len(octets) + 1)
            octets[at:at] = octets[other : other + length]
        elif words:
            octets[at : at + length] = rng.choice(words) * rng.choice((1, 1, 3, 1000))
        del octets[1 << 20 :]
    return bytes(octets)


class _Raw(str):
    """A JSON text that goes into the document as it is."""


def mutate_json(rng: random.Random, text: str) -> str:
    """A document with some of its values replaced, removed, renamed or repeated."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mutate_bytes(rng, text.encode(errors="replace")).decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        value = _change(rng, value)
    return _dump(value)


def _change(rng: random.Random, value: Any) -> Any:
    places = _places(value)
    if not places or rng.random() < 0.02:
        return _Raw(rng.choice(HOSTILE_JSON))
    holder, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "x", "schema", str(key) + "s"))] = holder.pop(key)
    elif kind == 2 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * rng.choice((1, 3, 500))
    elif kind == 3:
        other_holder, other_key = rng.choice(places)
        holder[key] = _Raw(_dump(other_holder[other_key]))
    elif kind == 4 and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] * rng.choice((-1, 10**6, 10**20, 0, 1e-9))
    elif kind == 5 and isinstance(holder[key], str):
        text = holder[key].encode(errors="replace")
        holder[key] = mutate_bytes(rng, text).decode("utf-8", "replace")
    else:
        holder[key] = _Raw(rng.choice(HOSTILE_JSON))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document that something can be done to."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 20_000:
        holder = waiting.pop()
        keys: Iterable[Any] = ()
        if isinstance(holder, dict):
            keys = list(holder)
        elif isinstance(holder, list):
            keys = range(len(holder))
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def _dump(value: Any) -> str:
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(k))}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value)


def mutate_json_lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        kind = rng.randrange(7)
        if kind <= 2:
            lines[at] = mutate_json(rng, lines[at])
        elif kind == 3:
            lines[at:at] = [lines[at]] * rng.choice((1, 10, 3000))
        elif kind == 4:
            rng.shuffle(lines)
        elif kind == 5:
            del lines[at]
            lines = lines or [""]
        else:
            lines[at] = mutate_bytes(rng, lines[at].encode()).decode("utf-8", "replace")
    return "\n".join(lines)


def replace_by_special(rng: random.Random, path: Path) -> None:
    """Put something in the place of a file that nobody should open, follow or read whole."""
    if path.is_dir() and not path.is_symlink():
        return
    path.unlink(missing_ok=True)
    kind = rng.randrange(10)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to("/dev/zero")
    elif kind == 2:
        path.symlink_to(rng.choice(("/etc/passwd", "/", "/proc/self/mem", "/dev/tty")))
    elif kind == 3:
        path.symlink_to(path.name)
    elif kind == 4:
        path.mkdir()
    elif kind == 5:
        path.touch()
        os.truncate(path, rng.choice((1 << 20, 1 << 30, 1 << 40)))
    elif kind == 6:
        begin = rng.choice((b"{", b"[", b'{"a":"', b'{"t":1,"kind":"'))
        path.write_bytes(begin + b"x" * (20 << 20))
    elif kind == 7:
        path.write_bytes(b"[" * 300_000)
    elif kind == 8:
        before = Path.cwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name[:100])
        finally:
            os.chdir(before)
    else:
        path.write_bytes(rng.randbytes(rng.choice((0, 1, 100, 70_000))))
