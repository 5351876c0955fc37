"""How much slower can a log of 1 MB be than an ordinary one of the same size?

    .venv/bin/python -m benchmarks.worst_log [--candidates 150] [--seed 1]

Makes logs that are as unpleasant as can be made from what rerail itself looks for: for each
pattern of the catalogue and of the readers, texts that nearly match it (tests/adversarial.py); all
words that it looks for on every line; one line of 1 MB; a traceback without end; thousands of ranks
talking at once. Reads each beside an ordinary training log, in turn, and prints the slowest as
multiples of the ordinary one, in CPU time. The bar: 5 times.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.explain_throughput import write_log
from rerail.catalogue import load_catalogue
from rerail.catalogue.literals import spaced
from rerail.diagnosis import explain_logs
from rerail.evidence.text.logs import search_words

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from adversarial import attacks

SIZE = 1 << 20
LINE = 2000


def made() -> Iterator[tuple[str, str]]:
    """Name and text of unpleasant logs, each made for one of the readers."""
    words = search_words(load_catalogue())
    yield "every word on every line", _filled(" ".join(words)[:LINE])
    yield "one word a line", "\n".join(words * (SIZE // len("\n".join(words)) + 1))[:SIZE]
    yield "one line", "x=1 " * (SIZE // 4)
    yield "digits", _filled("1" * LINE)
    yield "blank lines", "import x" + "\n" * SIZE
    frame = '  File "train.py", line 7, in f\n    return f(x)\n'
    header = "Traceback (most recent call last):\n"
    yield "a deep traceback", header + frame * (SIZE // len(frame)) + "RecursionError: x"
    short = header + frame + "RuntimeError: CUDA out of memory\n"
    yield "many tracebacks", short * (SIZE // len(short))
    ranks = "".join(f"[rank{n}]: {header}" for n in range(6000))
    rest = "".join(f"[rank{n}]: ValueError: x\n" for n in range(6000))
    yield "a traceback of each of 6,000 ranks", ranks + rest
    yield "carriage returns", ("\r" + "step 1 loss 2 ") * (SIZE // 15)
    yield "escapes", "\x1b[" * (SIZE // 2)
    yield "exit lines", "Killed: signal 9 exit code 1 terminated with rc torch\n" * (SIZE // 52)
    yield "memory lines", _lines(f"rss memory used: {n} MB free {n} kB" for n in range(30000))
    yield "progress", _lines(f"step {n} loss {n}.5 epoch {n} it i batch {n}" for n in range(30000))
    yield "words cut by line breaks", _repeated(" ".join(words).replace(" ", "\n") + "\n")
    parts = sorted({part for word in words for part in re.findall(r"[a-z_]+", word)})
    chooser = random.Random(1)
    yield "parts of words", _lines(" ".join(chooser.choices(parts, k=12)) for _ in range(20000))
    ending = "exit exited code status signal process worker killed by died crashed : 9 SIGKILL"
    yield "words of endings", _shuffled(ending, chooser)
    yield (
        "words of progress",
        _shuffled("step 5 iter i 1% epoch loss nan / [ max_ grad norm", chooser),
    )
    yield (
        "words of tracebacks",
        _shuffled(
            'File "x.py", line 7, in f Error: raise (most recent call last) Exception', chooser
        ),
    )
    yield "memory figures", _lines("mem " + " rss 1 MB" * 40 for _ in range(3000))
    yield (
        "memory labels",
        _lines(" ".join(f"mem{n % 7} {n}" for n in range(60)) for _ in range(4000)),
    )
    yield (
        "prefixes",
        _lines(f"[12:00:0{n % 9}] [rank{n % 9}]: (pid={n}) x | " * 2 for n in range(30000)),
    )
    yield "open prefixes", _filled("[PG" * 600)
    yield "stamps", _lines(f"2026-11-15 21:00:00,{n:06} ValueError: {n}" for n in range(30000))
    yield "lost progress", "Killed\n" * 38000 + "step 1 loss nan\n" * 2000
    yield "steps again", _lines(f"Killed\nstep 1 loss {n % 2}" for n in range(20000))
    yield "kernel lines", _lines(f"x[1]: segfault at 0 ip 1 sp {n:x} error 4" for n in range(25000))
    yield "Xid", _lines(f"NVRM: Xid (PCI:{n}): oom limit 79, out of memory" for n in range(25000))
    yield "thread dumps", 'Thread 0x7f (most recent call first):\n  File "x", line 1 in f\n' * 16000
    yield (
        "collectives",
        _lines(
            f"[Rank {n % 9}] WorkNCCL(SeqNum={n // 9}, OpType=A{n % 2}, NumelIn=1"
            for n in range(16000)
        ),
    )
    yield "lone exceptions", _lines(f"a.b.RuntimeError: CUDA error {n}" for n in range(25000))
    yield (
        "chains",
        _lines(
            "ValueError: x\n\nDuring handling of the above exception, another exception occurred\n"
            for _ in range(12000)
        ),
    )
    yield "finishes", _lines(f"training finished, not done: epoch {n} of 9" for n in range(25000))
    yield "letters beyond ASCII", _filled("ошибка памяти İ 步骤 CUDA out of memory " * 40)
    yield "native frames", _lines(f"#{n} 0x7f in f (x) from /lib/libc.so.6" for n in range(25000))


def attacks_on_signatures() -> Iterator[tuple[str, str]]:
    """Logs of one line again and again that nearly matches a pattern of the catalogue."""
    for cause in load_catalogue():
        for signature in cause.signatures:
            for attack in _two(attacks(spaced(signature.pattern), LINE)):
                yield f"{cause.id} {signature.name}", _filled(attack)


def candidates() -> Iterator[tuple[str, str]]:
    yield from made()
    yield from attacks_on_signatures()


def _two(texts: Iterator[str]) -> list[str]:
    found = list(texts)
    return random.choices(found, k=2) if found else []


def _filled(line: str) -> str:
    line = line.strip("\n") + "\n"
    return line * (SIZE // len(line))


def _repeated(text: str) -> str:
    return (text * (SIZE // len(text) + 1))[:SIZE]


def _shuffled(words: str, chooser: random.Random) -> str:
    return _lines(" ".join(chooser.choices(words.split(), k=24)) for _ in range(12000))


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines)[:SIZE]


def cpu_seconds(path: Path) -> float:
    started = time.process_time()
    explain_logs([path], seconds=60)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=re.sub(r"\n\n.*", "", str(__doc__), flags=re.S))
    parser.add_argument("--candidates", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    drawn = list(attacks_on_signatures())
    chosen = [*made(), *random.sample(drawn, min(len(drawn), arguments.candidates))]
    with tempfile.TemporaryDirectory() as folder:
        ordinary, unpleasant = Path(folder) / "ordinary.log", Path(folder) / "unpleasant.log"
        write_log(ordinary, SIZE)
        cpu_seconds(ordinary)  # what is compiled once is not counted
        results = []
        for name, text in chosen:
            unpleasant.write_text(text[:SIZE], encoding="utf-8")
            cpu_seconds(unpleasant)
            base = min(cpu_seconds(ordinary) for _ in range(2))
            results.append((cpu_seconds(unpleasant) / base, base, name))
    results.sort(reverse=True)
    for ratio, base, name in results[:12]:
        print(f"{ratio:6.2f} × {base:.2f} s  {name}")
    print(f"the slowest of {len(chosen)} logs of 1 MB: {results[0][0]:.2f} × an ordinary one")


if __name__ == "__main__":
    main()
