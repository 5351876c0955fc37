"""What `rerail ui` takes: a long list, a long run, and many pages on a run that is under way.

    python -m benchmarks.ui [--runs 5000] [--hours 24] [--pages 20] [--watches 2] [--windows 8]

The list is of runs with an answer each, first without the store's index and then with it. The long
run has a row for every second, as the recorder thins it. The pages are sockets that take all that
is pushed; what they cost is told in two ways: the CPU time of the server, as a share of one core,
and the CPU time that the recorded command needs for a piece of work with pages open and so many
`rerail watch` on terminals, over that without any, in alternating windows: other programs on the
machine slow both alike. The same with nothing switched says what the method can see.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.watch_cost import SETTLE_SECONDS, in_words, start_in_terminal
from rerail.records import Outcome, ProcessVitals
from rerail.store import Store, dump_line

WINDOW_SECONDS = 6.0
Span = tuple[float, float]
WORK = """
import time
numbers = list(range(2000))
while True:
    units, began = 0, time.process_time()
    while time.process_time() - began < 0.1:
        sum(number * number for number in numbers)
        units += 1
    print("unit", round(time.time(), 3), units / (time.process_time() - began), flush=True)
"""


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    token: str

    def seconds(self, path: str) -> tuple[float, int]:
        """How long an answer takes, and its size."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:200])
        connection.close()
        return time.perf_counter() - began, len(body)

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rerail", "ui", "--port", "0", "--json", "--home", str(home)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        text = ""
        assert process.stdout is not None
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        parts = urlsplit(json.loads(text)["address"])
        yield Server(process, int(parts.port or 0), parts.query.removeprefix("token="))
    finally:
        process.terminate()
        process.wait(30)


def write_runs(home: Path, count: int) -> None:
    """Ended runs, every other with a diagnosis; written without the syncing of a real recorder."""
    writer = Store(home).create_run(["python", "train.py"], "/data", {"label": "first"}, False)
    writer.finish(Outcome("signal", "SIGSEGV", "SIGSEGV"), 12.5)
    document = json.loads((writer.path / "run.json").read_text())
    cause = {"id": "native-segfault", "probability": 0.9, "title": "A native library crashed"}
    diagnosis = {"schema": 1, "causes": [cause], "headline": "SIGSEGV in scan().", "facts": {}}
    for number in range(count - 1):
        folder = home / "runs" / f"2025{number // 100:04d}-{number % 100:06d}-{number:04x}"
        folder.mkdir()
        command = ["python", "train.py", "--seed", str(number)]
        more = {"id": folder.name, "command": command, "started_unix": 1.7e9 + 60 * number}
        (folder / "run.json").write_text(json.dumps({**document, **more}))
        if number % 2:
            (folder / "diagnosis.json").write_text(json.dumps(diagnosis))


def write_long_run(home: Path, hours: float) -> tuple[str, int]:
    """A row for every second; the id and how many numbers they hold."""
    writer = Store(home).create_run(["python", "train.py"], "/data", {"label": "long"}, False)
    fields = list(ProcessVitals.__dataclass_fields__)
    draw = random.Random(7)
    lines = [dump_line({"schema": 1, "process_fields": fields})]
    anon, numbers = 2 << 30, 0
    for second in range(int(hours * 3600)):
        anon = max(1 << 30, anon + draw.randrange(-(1 << 22), (1 << 22) + 4000))
        peak = anon + (draw.randrange(1 << 26) if draw.random() < 0.01 else 0)
        tree = [anon, 300 << 20, 64 << 20, 0, 40 + draw.randrange(4), 120, second * 1.7, second * 9]
        tree += [3, second * 4096, second * 512, second * 20, second * 7, 0, 0, 0, 1]
        machine = {"available_bytes": (60 << 30) - anon, "load_1m": round(draw.random() * 8, 2)}
        machine["cgroup_usage_bytes"] = anon + (300 << 20)
        row = {"t": second + 0.9, "span": 1, "n": 3, "tree": tree, "procs": {}, "machine": machine}
        row["min"] = {"tree.rss_bytes": anon + (360 << 20)}
        row["max"] = {"tree.rss_bytes": peak + (364 << 20), "tree.rss_anon_bytes": peak}
        numbers += len(tree) + len(machine)
        lines.append(dump_line(row))
    (writer.path / "vitals.jsonl").write_bytes(b"".join(lines))
    writer.finish(Outcome("ok", "The command ended well."), hours * 3600)
    return writer.path.name, numbers


def measure_list(home: Path, count: int) -> None:
    write_runs(home, count)
    for words in ("no index yet", "with the index"):
        with serving(home) as server:
            cpu = server.cpu_seconds()
            first, size = server.seconds("/runs")
            cpu = server.cpu_seconds() - cpu
            again = statistics.median(server.seconds("/runs")[0] for _ in range(5))
            found, _ = server.seconds("/runs?q=seed+4321")
            print(
                f"  list of {count:,} runs, {words}: first {first:.2f} s ({cpu:.2f} s of CPU,"
                f" {size >> 10} KiB), again {again:.3f} s, a search {found:.3f} s"
            )


def measure_long_run(home: Path, hours: float) -> None:
    run_id, numbers = write_long_run(home, hours)
    size = (home / "runs" / run_id / "vitals.jsonl").stat().st_size
    print(f"  a run of {hours:g} h: {numbers:,} numbers, {size / 1e6:.0f} MB")
    with serving(home) as server:
        base = f"/runs/{run_id}"
        page, _ = server.seconds(base)
        before = server.cpu_seconds()
        first, sent = server.seconds(f"{base}/series.json?chart=memory&points=1200")
        cpu = server.cpu_seconds() - before
        rest, _ = server.seconds(f"{base}/series.json?points=1200")
        zooms = [
            server.seconds(f"{base}/series.json?points=3600&from={at}&to={at + 3 * 600}")[0]
            for at in range(0, int(hours * 3600) - 2000, int(hours * 360))
        ]
        details, _ = server.seconds(f"{base}/details")
        print(
            f"    page {page:.2f} s, first chart {first:.2f} s ({cpu:.2f} s of CPU,"
            f" {sent >> 10} KiB), the others {rest:.2f} s, a zoom {statistics.median(zooms):.3f} s,"
            f" the rest of the record {details:.2f} s"
        )


async def watch(server: Server, run_id: str, pages: int, seconds: float) -> int:
    """So many pages for so long; how many messages they got."""
    from websockets.asyncio.client import connect

    until = time.monotonic() + seconds

    async def one() -> int:
        got = 0
        place = f"ws://127.0.0.1:{server.port}/live?run={run_id}"
        headers = {"Authorization": f"Bearer {server.token}"}
        async with connect(place, additional_headers=headers, compression=None) as socket:
            while (left := until - time.monotonic()) > 0:
                try:
                    await asyncio.wait_for(socket.recv(), left)
                    got += 1
                except asyncio.TimeoutError:
                    break
        return got

    return sum(await asyncio.gather(*(one() for _ in range(pages))))


def measure_pages(home: Path, pages: int, watches: int, windows: int) -> None:
    recorder = subprocess.Popen(
        [
            *(sys.executable, "-m", "rerail", "run", "--home", str(home), "--quiet"),
            *("--", sys.executable, "-c", WORK),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    command = [sys.executable, "-m", "rerail", "watch", "--home", str(home), "last"]
    screens: list[int] = []
    try:
        with serving(home) as server:
            run_id = _live_run(home)
            screens = [start_in_terminal(command) for _ in range(watches)]
            time.sleep(SETTLE_SECONDS)
            # Each: a window with, beside one without; "nothing" switches nothing in either.
            pairs: dict[str, list[tuple[Span, Span]]] = {"pages": [], "nothing": []}
            shares, messages = [], 0
            for name in ("pages", "nothing") * windows:
                spans = {}
                for is_on in random.sample([True, False], 2):
                    is_watched = is_on and name == "pages"
                    for pid in screens:
                        os.kill(pid, signal.SIGCONT if is_watched else signal.SIGSTOP)
                    began, cpu = time.time(), server.cpu_seconds()
                    if is_watched:
                        messages += asyncio.run(watch(server, run_id, pages, WINDOW_SECONDS))
                        shares.append((server.cpu_seconds() - cpu) / (time.time() - began))
                    else:
                        time.sleep(WINDOW_SECONDS)
                    spans[is_on] = (began + 0.6, time.time())
                pairs[name].append((spans[True], spans[False]))
            costs = {name: _costs(home, run_id, found) for name, found in pairs.items()}
    finally:
        for pid in screens:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        recorder.terminate()
        recorder.wait(60)
    per_second = messages / (pages * windows * WINDOW_SECONDS)
    print(
        f"  {pages} pages and {watches} watchers on a live run: {per_second:.1f} messages a second"
        f" to each page;\n    the server took {100 * statistics.median(shares):.1f} % of a core;"
        f" CPU of a piece of work, with them over without:\n    {in_words(costs['pages'])}"
        f" (bar 1.005); nothing switched: {in_words(costs['nothing'])}"
    )


def _live_run(home: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = [path for path in (home / "runs").glob("*/output.log") if path.stat().st_size]
        live = [path.parent.name for path in found if b"unit" in path.read_bytes()]
        if live:
            return live[-1]
        time.sleep(0.1)
    raise SystemExit("the command that is to be recorded did not begin")


def _costs(home: Path, run_id: str, pairs: list[tuple[Span, Span]]) -> list[float]:
    """Of each pair of windows: the CPU time of a piece of work in the first over the second."""
    rates: list[tuple[float, float]] = []
    for line in (home / "runs" / run_id / "output.log").read_text().splitlines():
        word, *numbers = line.split()
        if word == "unit" and len(numbers) == 2:
            at, rate = map(float, numbers)
            rates.append((at, rate))

    def rate_in(span: Span) -> float:
        return statistics.median(rate for at, rate in rates if span[0] <= at <= span[1])

    return [rate_in(off) / rate_in(on) for on, off in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--watches", type=int, default=2)
    parser.add_argument("--windows", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.runs:
            measure_list(Path(folder) / "many", options.runs)
        if options.hours:
            measure_long_run(Path(folder) / "long", options.hours)
        if options.pages:
            measure_pages(Path(folder) / "live", options.pages, options.watches, options.windows)


if __name__ == "__main__":
    main()
