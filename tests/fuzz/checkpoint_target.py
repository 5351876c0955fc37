"""Checkpoints of every format, damaged and hostile, against the check of checkpoints.

`verdict(data, name)` gives the answer for one file as words. `cases(seed)` makes files without end,
each with what the answer has to be. As a program: runs so many of them with 10 s and a gigabyte for
each, and ends with a JSON line; any case over a bar or with a wrong answer is named in it.

    python tests/fuzz/checkpoint_target.py --cases 20000 --seed 1
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import pickle
import random
import resource
import signal
import struct
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy
import torch

from rerail.checkpoints.check import NOT_CHECKED, check_checkpoint

SECONDS_PER_CASE = 10
BYTES_PER_CASE = 1 << 30
SOUND, REFUSED, ANY = "sound", "refused", "any"
# Everything that must not be called, in the ways that are known to get past a list of names.
HOSTILE = (
    *("os system", "posix system", "subprocess Popen", "builtins eval", "builtins exec"),
    *("__builtin__ eval", "builtins open", "builtins __import__", "builtins compile", "io open"),
    *("importlib import_module", "runpy run_path", "runpy _run_code", "ctypes CDLL"),
    *("torch load", "torch.serialization load", "torch.jit load", "torch.hub load"),
    *("torch.hub load_state_dict_from_url", "torch.utils.cpp_extension load", "numpy load"),
    *("torch os.system", "numpy os.system", "torch.serialization os.unlink", "mymodule sys.exit"),
    *("pickle loads", "_pickle loads", "marshal loads", "shutil rmtree", "socket socket"),
    *("webbrowser open", "timeit timeit", "cProfile run", "pdb run", "code interact"),
    *("pydoc pipepager", "asyncio.subprocess Process", "multiprocessing Process"),
    *("numpy.testing._private.utils runstring", "numpy fromfile", "numpy memmap", "builtins map"),
    *("torch.fx.graph_module reduce_graph_module", "torch.utils.collect_env run", "pip main"),
    *("operator attrgetter", "operator methodcaller", "functools reduce", "types FunctionType"),
    *("joblib load", "pandas read_pickle", "mymodule load_anything", "builtins setattr"),
    *("logging.config fileConfig", "urllib.request urlopen", "torch._dynamo.guards GuardBuilder"),
    *("http.client HTTPConnection", "pathlib os.system", "collections _sys.exit.__call__"),
    *("torch.distributed TCPStore", "tempfile mktemp", "atexit register", "pty spawn"),
)
_TOKENS = (
    *(b"(", b")", b"N", b"}", b"]", b"t", b"R", b"b", b"0", b"1", b"2", b".", b"\x81", b"\x85"),
    *(b"\x94", b"\x93", b"Q", b"u", b"e", b"q\x00", b"h\x00", b"cos\nsystem\n", b"\x8c\x02os"),
    *(b"X\xff\xff\xff\xff", b"\x8b\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 8, b"r\xff\xff\xff\x7f"),
    *(b"I1\n", b"\x82\x01", b"\x97", b"\x98", b"\x80\x05", b"\x95" + b"\0" * 8),
)


@dataclass(frozen=True)
class Case:
    name: str
    data: bytes
    expected: str
    what: str


def verdict(data: bytes, name: str = "a.pt") -> str:
    """ "sound: ...", "refused: ..." or "not checked to the end: ..."."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        found = check_checkpoint(path)
    if found.problem is None:
        return f"{SOUND}: {found.kind}"
    if found.problem.startswith(NOT_CHECKED):
        return found.problem
    return f"{REFUSED}: {found.problem}"


def cases(seed: int) -> Iterator[Case]:
    chance = random.Random(seed)
    makers: list[Callable[[random.Random], Case]] = [_whole, _cut, _hostile, _crafted]
    makers += [_mutated] * 4
    while True:
        yield chance.choice(makers)(chance)


def is_right(case: Case, answer: str) -> bool:
    # "It cannot be read (SomeError)" is the net under the readers: they should have known.
    if "it cannot be read (" in answer:
        return False
    if case.expected == SOUND:
        return answer.startswith(SOUND)
    return case.expected == ANY or not answer.startswith(SOUND)


# ---- sound files ---------------------------------------------------------------------------------


def _state() -> dict[str, object]:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "model": OrderedDict(model.state_dict()),
        "optimizer": optimizer.state_dict(),
        "half": torch.zeros(5, dtype=torch.bfloat16),
        "array": numpy.arange(6.0),
        "arguments": argparse.Namespace(lr=0.1),
        "step": 40,
    }


def _torch(*, is_zip: bool, protocol: int) -> bytes:
    buffer = io.BytesIO()
    torch.save(_state(), buffer, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


def _tar(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("weights")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _npz() -> bytes:
    buffer = io.BytesIO()
    numpy.savez_compressed(buffer, a=numpy.arange(50.0), b=numpy.ones((3, 3), numpy.int32))
    return buffer.getvalue()


def _npy() -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.arange(50.0))
    return buffer.getvalue()


def safetensors(header: object, length: int) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(length)


@cache
def seeds() -> list[tuple[str, bytes]]:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    }
    found = [("a.safetensors", safetensors(header, 32)), ("a.npz", _npz()), ("a.npy", _npy())]
    found.append(("a.json", json.dumps({"step": 40, "loss": [0.5] * 20}).encode()))
    found.append(("a.pkl.gz", gzip.compress(pickle.dumps(list(range(500))))))
    found.append(("a.tar", _tar(bytes(range(250)) * 4)))
    found.append(("a.distcp", _torch(is_zip=True, protocol=2) * 2))
    for protocol in (2, 3, 4, 5):
        found.append(("a.pt", _torch(is_zip=True, protocol=protocol)))
        found.append(("a.pth", _torch(is_zip=False, protocol=protocol)))
        found.append(("a.pkl", pickle.dumps(_state(), protocol=protocol)))
    return found


def _whole(chance: random.Random) -> Case:
    name, data = chance.choice(seeds())
    return Case(name, data, SOUND, "whole")


def _cut(chance: random.Random) -> Case:
    name, data = chance.choice(seeds())
    # A distributed checkpoint cut between two of its archives is whole without its metadata, and
    # a tar archive is padded.
    expected = ANY if name.endswith((".distcp", ".tar")) else REFUSED
    return Case(name, data[: chance.randrange(len(data))], expected, "cut off")


# ---- damage --------------------------------------------------------------------------------------


def _mutated(chance: random.Random) -> Case:
    name, data = chance.choice(seeds())
    if chance.random() < 0.4 and name in ("a.pt", "a.pkl"):
        pickled = _pickle_of(data) if name == "a.pt" else data
        changed = _mutate(chance, pickled)
        return Case(name, _with_pickle(changed) if name == "a.pt" else changed, ANY, "pickle")
    return Case(name, _mutate(chance, data), ANY, "bytes")


def _mutate(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] = chance.randrange(256)
        elif kind == 1:
            changed[at:at] = chance.choice(_TOKENS) * chance.choice((1, 1, 2, 500))
        elif kind == 2:
            del changed[at : at + chance.choice((1, 4, 50))]
        elif kind == 3:
            changed[at : at + 8] = chance.choice((b"\xff", b"\0", b"\x7f")) * 8
        elif kind == 4:
            piece = changed[at : at + chance.choice((4, 40, 400))]
            changed[at:at] = piece * chance.choice((1, 30))
        elif changed:
            changed[at : at + 4] = struct.pack("<I", chance.getrandbits(32))
    return bytes(changed)


def _pickle_of(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = next(each for each in archive.namelist() if each.endswith("data.pkl"))
        return archive.read(name)


def _with_pickle(pickled: bytes) -> bytes:
    """The pickle in an archive whose checksums are right, as somebody who means harm would do."""
    whole = io.BytesIO(_torch(is_zip=True, protocol=2))
    changed = io.BytesIO()
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickled if name.endswith("data.pkl") else old.read(name))
    return changed.getvalue()


# ---- harm ----------------------------------------------------------------------------------------


def _named(chance: random.Random, module: str, name: str) -> bytes:
    def text(word: str) -> bytes:
        return b"\x8c" + bytes([len(word)]) + word.encode()

    if "." not in name and chance.random() < 0.4:
        return f"c{module}\n{name}\n".encode()
    if chance.random() < 0.3:
        # Texts from the memo, in which others lie already.
        return b"(" + text(module) + b"\x94" + text(name) + b"\x941h\x00h\x01\x93"
    return text(module) + text(name) + b"\x93"


def _hostile(chance: random.Random) -> Case:
    module, _, name = chance.choice(HOSTILE).partition(" ")
    argument = b"\x8c\x04true\x85"
    call = _named(chance, module, name) + argument + b"R"
    if chance.random() < 0.2 and module != name:
        # Looked up rather than named.
        holder = b"\x8c\x08builtins\x8c\x07getattr\x93"
        target = b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c\x08__dict__\x93"
        word = name.encode()
        call = (
            holder + b"(" + target + b"\x8c" + bytes([len(word)]) + word + b"tR" + argument + b"R"
        )
    inner = chance.choice((call, b"}\x8c\x01a" + call + b"s", b"](" + call + b"e", call + b"0N"))
    pickled = b"\x80\x04" + inner + b"."
    carrier = chance.randrange(5)
    if carrier == 0:
        return Case("a.pkl", pickled, REFUSED, f"hostile {module}.{name}")
    if carrier == 1:
        return Case("a.pt", _with_pickle(pickled), REFUSED, f"hostile zip {module}.{name}")
    if carrier == 2:
        head = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {}))
        data = head + pickled + pickle.dumps([], 2)
        return Case("a.pth", data, REFUSED, f"hostile before 1.6 {module}.{name}")
    if carrier == 3:
        return Case("a.pkl", pickle.dumps(3) + pickled, REFUSED, f"hostile second {module}.{name}")
    return Case("a.pkl", _in_a_tensor(pickled), REFUSED, f"hostile in a tensor {module}.{name}")


def _in_a_tensor(pickled: bytes) -> bytes:
    """Loading a pickled tensor loads the pickle in its bytes."""
    padded = b"\x80\x04" + b"N0" * 64 + pickled[2:]
    length = struct.pack("<I", len(padded))
    return b"\x80\x04ctorch.storage\n_load_from_bytes\nB" + length + padded + b"\x85R."


def _crafted(chance: random.Random) -> Case:
    """Valid to a quick look, made to take time or memory."""
    size = 1 << chance.randint(10, 18)
    token = chance.choice(_TOKENS)
    choices: list[tuple[str, bytes]] = [
        ("a.pkl", b"\x80\x04" + token * (size // len(token))),
        ("a.pkl", b"\x80\x04N" + b"\x94" * size + b"."),
        ("a.pkl", (b"\x80\x04N." * (size // 4))),
        ("a.json", b"[" * size),
        ("a.json", b'{"a":' * (size // 5)),
        ("a.safetensors", struct.pack("<Q", size) + b"[" * size),
        ("a.safetensors", safetensors({"a": {"dtype": "F32", "shape": [10**18] * 999}}, 8)),
        ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 60000) + b"(" * 60000),
        ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 60000) + b"-" * 59999 + b"1"),
        ("a.gz", gzip.compress(bytes(size * 64))),
        ("a.tar", tarfile.TarInfo("x").tobuf() * (size // 512)),
    ]
    name, data = chance.choice(choices)
    return Case(name, data, ANY, "crafted")


# ---- as a program --------------------------------------------------------------------------------


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {SECONDS_PER_CASE} s")


def run(count: int, seed: int) -> dict[str, object]:
    seeds()
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + BYTES_PER_CASE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _too_long)
    answers: Counter[str] = Counter()
    wrong: list[str] = []
    slowest = 0.0
    for number, case in zip(range(count), cases(seed), strict=False):
        began = time.monotonic()
        signal.alarm(SECONDS_PER_CASE)
        try:
            answer = verdict(case.data, case.name)
        except BaseException as error:
            answer = f"it cannot be read ({error!r})"
        signal.alarm(0)
        slowest = max(slowest, time.monotonic() - began)
        answers[answer.partition(":")[0]] += 1
        if not is_right(case, answer):
            wrong.append(f"case {number}, {case.name}, {case.what}: {answer}")
    return {"cases": count, "answers": answers, "wrong": wrong, "slowest_seconds": slowest}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps(run(options.cases, options.seed)))
