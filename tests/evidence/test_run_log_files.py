"""Logs that the program wrote itself are read where its output does not say how it failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RERAIL = [sys.executable, "-m", "rerail"]
ABORTS = "echo terminate called, what: std::bad_alloc >&2; kill -ABRT $$"


def explained(folder: Path, script: str) -> dict[str, Any]:
    environ = {**os.environ, "RERAIL_HOME": str(folder / "home")}
    command = [*RERAIL, "run", "--json", "--", "sh", "-c", script]
    ran = subprocess.run(command, cwd=folder, env=environ, capture_output=True, timeout=180)
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_output_that_went_into_a_file_is_found(tmp_path: Path) -> None:
    document = explained(tmp_path, f"sh -c '{ABORTS}' 2> train.log")
    (first, *_) = document["causes"]
    assert first["id"] == "host-alloc-failed"
    assert first["for"][0]["source"] == "train.log:1"


@pytest.mark.parametrize("name", ["notes.txt", ".hidden/train.log", "a/b/c/d/e/train.log"])
def test_other_files_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    document = explained(tmp_path, f"echo std::bad_alloc > {name}; exit 3")
    assert "host-alloc-failed" not in [cause["id"] for cause in document["causes"]]


def test_a_log_that_a_process_wrote_to_is_read_wherever_it_is(tmp_path: Path) -> None:
    """A launcher gives each rank a file of its own, in a folder of its own."""
    (tmp_path / "elsewhere").mkdir()
    log = tmp_path / "elsewhere" / "1.txt"
    code = "import os; os.write(2, b'what: std::bad_alloc\\n'); os.abort()"
    (tmp_path / "job").mkdir()
    script = f'RANK=1 WORLD_SIZE=2 "{sys.executable}" -c "{code}" 2> {log}'
    document = explained(tmp_path / "job", script)
    first = document["causes"][0]
    assert first["id"] == "host-alloc-failed"
    assert "1.txt:1" in [item["source"] for item in first["for"]]


def test_a_log_of_an_earlier_run_and_a_link_are_not_read(tmp_path: Path) -> None:
    old = tmp_path / "old.log"
    old.write_text("std::bad_alloc\n")
    os.utime(old, (1.0e9, 1.0e9))
    document = explained(tmp_path, "ln -s old.log new.log; exit 3")
    assert document["causes"] == []


def test_a_log_of_a_later_run_in_the_same_folder_is_not_read(tmp_path: Path) -> None:
    first = explained(tmp_path, "exit 3")
    explained(tmp_path, f"sh -c '{ABORTS}' 2> train.log")
    command = [*RERAIL, "explain", first["run"], "--home", str(tmp_path / "home"), "--json"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=180)
    assert json.loads(again.stdout)["causes"] == []


def test_what_the_output_says_itself_goes_before(tmp_path: Path) -> None:
    script = "echo std::bad_alloc > a.log; echo 'KeyError: 4' >&2; python3 -c 'raise KeyError(4)'"
    document = explained(tmp_path, script)
    assert document["causes"][0]["id"] == "python-exception"


def test_secrets_in_such_a_log_are_not_kept(tmp_path: Path) -> None:
    secret = "hf_" + "aBcD1234" * 5
    explained(tmp_path, f"echo 'std::bad_alloc with token {secret}' > a.log; exit 3")
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    plain = [
        p.name for p in kept if secret.encode() in p.read_bytes() and p.name != "private.jsonl"
    ]
    assert plain == []


def test_one_rank_s_own_files_are_shown_with_it(tmp_path: Path) -> None:
    """Standard output and standard error of each, and a log with its number in the name."""
    code = (
        "import os; r = os.environ['RANK']; print('out', r);"
        " os.write(2, b'err hf_' + b'aBcD1234' * 5);"
        " open(f'run/rank{r}.log', 'w').write(f'own {r}') if os.makedirs('run', exist_ok=True)"
        " is None else 0; raise SystemExit(int(r))"
    )
    script = (
        f'for r in 0 1; do RANK=$r WORLD_SIZE=2 "{sys.executable}" -c "{code}"'
        " > $r.stdout 2> $r.txt; done"
    )
    explained(tmp_path, script)
    shown = subprocess.run(
        [*RERAIL, "show", "last", "--rank", "1", "--json"],
        env={**os.environ, "RERAIL_HOME": str(tmp_path / "home")},
        capture_output=True,
        timeout=180,
    )
    assert shown.returncode == 0, shown.stderr.decode()
    logs = {Path(log["path"]).name: log["lines"] for log in json.loads(shown.stdout)["logs"]}
    assert logs.keys() == {"1.stdout", "1.txt", "rank1.log"}
    assert (logs["1.stdout"], logs["rank1.log"]) == (["out 1"], ["own 1"])
    assert logs["1.txt"][0].startswith("err ") and "aBcD" not in logs["1.txt"][0]


def recorded_while(first: str, second: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Record two runs that live at the same time in one folder, and explain both.

    The first writes into the pipe `begun` and waits for the pipe `go`, which comes after the
    second's end; what rerail prints goes into a file of that folder too, as with `> first.out`.
    """
    home = folder / "home"
    environ = {**os.environ, "RERAIL_HOME": str(home)}
    os.mkfifo(folder / "begun")
    os.mkfifo(folder / "go")

    def record(script: str, name: str) -> subprocess.Popen[bytes]:
        with (folder / name).open("wb") as out:
            command = [*RERAIL, "run", "--", "sh", "-c", script]
            return subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=out)

    waits = record(first, "first.out")
    (folder / "begun").read_bytes()
    record(second, "second.out").wait(180)
    (folder / "go").write_bytes(b"\n")
    waits.wait(180)
    documents = []
    for name in sorted((home / "runs").iterdir(), key=started):
        command = [*RERAIL, "explain", name.name, "--home", str(home), "--json"]
        again = subprocess.run(command, cwd=folder, capture_output=True, timeout=180)
        documents.append(json.loads(again.stdout))
    return documents[0], documents[1]


def started(path: Path) -> float:
    return float(json.loads((path / "run.json").read_text())["started_unix"])


SEGFAULT = f'"{sys.executable}" crash.py'


def crash_program(folder: Path) -> None:
    (folder / "crash.py").write_text(
        "import faulthandler, os, signal\nfaulthandler.enable()\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )


def sources(document: dict[str, Any]) -> str:
    return json.dumps([document["headline"], document["causes"], document["facts"]])


def test_output_of_a_run_that_overlaps_is_not_read(tmp_path: Path) -> None:
    crash_program(tmp_path)
    first, second = recorded_while("echo > begun; read x < go; kill -TERM $$", SEGFAULT, tmp_path)
    assert "native-segfault" in [cause["id"] for cause in second["causes"]]
    assert "SIGSEGV" not in sources(first)
    assert "second.out" not in sources(first)
    assert "crash.py" not in sources(first)


def test_a_file_that_the_command_names_is_read_though_another_run_overlaps(
    tmp_path: Path,
) -> None:
    crash_program(tmp_path)
    wait = f": > mine.log; echo > begun; read x < go; sh -c '{ABORTS}' 2> mine.log"
    first, second = recorded_while(wait, "exit 3", tmp_path)
    assert first["causes"][0]["id"] == "host-alloc-failed"
    assert second["causes"] == []


def test_output_of_a_run_before_is_not_read(tmp_path: Path) -> None:
    """A shell opens the file before the run starts, and another run writes more after it."""
    crash_program(tmp_path)
    environ = {**os.environ, "RERAIL_HOME": str(tmp_path / "home")}
    with (tmp_path / "run.err").open("ab") as shared:
        subprocess.run(
            [*RERAIL, "run", "--", "sh", "-c", SEGFAULT],
            cwd=tmp_path,
            env=environ,
            stdout=shared,
            stderr=shared,
            timeout=180,
        )
        document = explained(tmp_path, "n=run; echo going on >> $n.err; exit 3")
    assert document["causes"] == []
    assert "SIGSEGV" not in sources(document)


@pytest.mark.parametrize(
    "said",
    [
        "worker with pid 1 begins\nstd::bad_alloc\n",
        "std::bad_alloc\nTraceback (most recent call last):\n"
        '  File "/home/me/sleepy.py", line 3, in <module>\n    go()\nValueError: no\n',
    ],
)
def test_a_file_that_names_another_program_is_not_read(tmp_path: Path, said: str) -> None:
    (tmp_path / "text").write_text(said)
    document = explained(tmp_path, "n=other; cat text > $n.log; exit 3")
    assert document["causes"] == []
    assert "sleepy" not in sources(document)


def test_a_file_that_began_in_this_run_is_read_though_nothing_names_it(tmp_path: Path) -> None:
    document = explained(tmp_path, "n=own; echo std::bad_alloc > $n.log; exit 3")
    assert document["causes"][0]["id"] == "host-alloc-failed"
