"""Real deaths of small programs: the first sentence has who, what, where, when and how much."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from memory_cgroup import small_memory_group
from run_driver import PROGRAMS, compiled_library, run_recorded

from rerail.diagnosis import Diagnosis, explain_run
from rerail.recorder.stalls.stacks_by_debugger import find_program

PROGRAM = PROGRAMS / "ends_badly.py"
SOURCE = PROGRAM.read_text(encoding="utf-8").splitlines()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def at(code: str) -> str:
    """ "ends_badly.py:7": where the first line is that holds `code`."""
    return f"{PROGRAM.name}:{next(n for n, line in enumerate(SOURCE, 1) if code in line)}"


def explained(
    folder: Path, way: str, *more: str, limit: str = "", stall: bool = False
) -> Diagnosis:
    command = [sys.executable, str(PROGRAM), way, *more]
    if limit:
        command = ["bash", "-c", limit, "bash", *command]
    options = ["--stall", "2", "--on-stall", "kill"] if stall else []
    (folder / "work").mkdir()
    done = run_recorded(folder / "home", *command, options=options, cwd=folder / "work")
    return explain_run(done.folder)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compiled_library(PROGRAMS / "ends_badly.cpp", tmp_path_factory.mktemp("native")))


def test_a_file_that_the_message_does_not_name_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, "pickle")
    assert found.causes[0].id == "checkpoint-corrupt"
    place = at("return pickle.load(file)")
    assert found.headline.startswith("last.ckpt is cut off, damaged or no checkpoint: ")
    assert found.headline.endswith(f"truncated in {place} resume() (step 5).")
    assert found.facts["file_in_hand"] == "last.ckpt"


def test_what_was_being_written_when_the_disk_was_full(tmp_path: Path) -> None:
    found = explained(tmp_path, "full")
    assert found.causes[0].id == "disk-full"
    assert at("self.file.") in found.headline or at("self.file.flush") in found.headline
    assert found.headline.endswith("add() (step 5), writing /dev/full.")


def test_where_a_relative_path_was_looked_for(tmp_path: Path) -> None:
    found = explained(tmp_path, "moved")
    assert found.causes[0].id == "file-missing"
    assert found.headline.endswith("(step 5); the program had gone to runs/one.")


@pytest.mark.parametrize(
    ("way", "said", "function"),
    [
        ("leaves", "sys.exit(4)", "leaves"),
        ("leaves_at_once", "os._exit(3)", "leaves_at_once"),
    ],
)
def test_a_program_that_ends_itself_is_told_where(
    tmp_path: Path, way: str, said: str, function: str
) -> None:
    found = explained(tmp_path, way)
    place = at(said.replace("3", "code").replace("4", "code"))
    assert found.headline == f"The program called {said} in {place} {function}() (step 5)."
    assert found.outcome.exit_code == int(said[-2])


def test_the_exception_for_which_a_program_gives_up_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, "gives_up")
    place = at('{}["text"]')
    assert found.headline == f"KeyError: 'text' in {place} gives_up() (step 5)."


def test_a_call_of_exit_that_was_caught_is_not_told(tmp_path: Path) -> None:
    found = explained(tmp_path, "leaves_and_stays")
    assert "exit_call" not in found.facts
    assert "sys.exit" not in found.headline


def test_a_program_that_the_command_left_running_is_named(tmp_path: Path) -> None:
    in_background = '"$@" >/dev/null 2>&1 & until [ -e begun ]; do sleep 0.05; done'
    found = explained(tmp_path, "stays", limit=in_background)
    named = re.search(r"; ends_badly\.py \(pid (\d+)\) still runs, and is no", found.headline)
    assert named is not None, found.headline
    os.kill(int(named[1]), signal.SIGKILL)
    assert found.causes == ()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "limit", "cause", "said"),
    [
        (
            "files",
            'ulimit -n 64; "$@"',
            "fd-exhausted",
            # The second if the recorder happened to look in the instant when all were open.
            r"\(step 5\): 64 may be open at once\.$|^6\d of 64 file descriptors were in use in ",
        ),
        (
            "size",
            'ulimit -f 512; "$@"',
            "disk-full",
            r": files may grow to 512 KiB \(ulimit -f\)",
        ),
        (
            # The recorder does not look while the limit is lowered and hit.
            "size",
            'kill -STOP $PPID; (sleep 0.5; kill -CONT $PPID) & ulimit -f 512; exec "$@"',
            "disk-full",
            r": files may grow to 512 KiB \(ulimit -f\)",
        ),
        (
            "cpu",
            'ulimit -St 1; "$@"',
            "scheduler-stopped",
            r": 1 s of CPU time, all that it may have \(ulimit -t\), were used up\b",
        ),
        ("cpu", 'timeout 2 "$@"', "scheduler-stopped", r"its time was over \(step 5\)"),
    ],
)
def test_the_limit_that_was_hit_is_stated(
    tmp_path: Path, way: str, limit: str, cause: str, said: str
) -> None:
    found = explained(tmp_path, way, limit=limit)
    assert found.causes[0].id == cause
    assert re.search(said, found.headline), found.headline


def test_a_reader_that_went_away_is_no_rank_that_died(tmp_path: Path) -> None:
    found = explained(tmp_path, "pipe", limit='set -o pipefail; "$@" | head -6')
    assert found.causes[0].id == "python-exception"
    place = at("print(number, flush=True)")
    assert f"BrokenPipeError: [Errno 32] Broken pipe in {place} log()" in found.headline


def test_what_a_library_threw_stands_in_the_sentence(tmp_path: Path, library: str) -> None:
    found = explained(tmp_path, "throws", library)
    assert found.causes[0].id == "native-segfault"
    assert f"SIGABRT in {at('getattr(ctypes')} call() (step 5)" in found.headline
    assert "C++ threw std::out_of_range: vector" in found.headline


def test_a_trap_is_no_instruction_that_the_processor_lacks(tmp_path: Path, library: str) -> None:
    found = explained(tmp_path, "traps", library)
    assert found.causes[0].id in ("native-segfault",)
    assert "libendsbadly.so, which stopped itself by a trap instruction" in found.headline


def test_a_thread_without_a_name_is_called_by_what_it_runs(tmp_path: Path, library: str) -> None:
    found = explained(tmp_path, "deep", library)
    assert found.causes[0].id == "stack-overflow"
    assert "(the thread of call(), step 5)" in found.headline


def test_a_crash_after_the_last_line_is_told_as_one(tmp_path: Path, library: str) -> None:
    found = explained(tmp_path, "exits", library)
    assert found.headline.startswith("SIGSEGV while the program was exiting (step 5), inside")


def test_a_crash_behind_an_exception_is_its_echo(tmp_path: Path, library: str) -> None:
    found = explained(tmp_path, "raises_and_crashes", library)
    place = at('raise ValueError("no such column: label")')
    assert found.headline == f"ValueError: no such column: label in {place} main() (step 5)."
    assert found.outcome.signal == "SIGSEGV"  # so it ended nevertheless


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "code", "ending"),
    [
        ("fifo", 'with open(path, "rb") as file:', "load() (step 5), waiting for part-3.bin to be"),
        ("socket", "return connection.recv", "(step 5), waiting for the network (127.0.0.1:"),
        pytest.param(
            "join",
            "child.join()",
            ", which waits for somebody to empty its queue.",
            marks=pytest.mark.skipif(find_program("py-spy") is None, reason="no py-spy"),
        ),
    ],
)
def test_a_hang_says_whom_it_waits_for(tmp_path: Path, way: str, code: str, ending: str) -> None:
    found = explained(tmp_path, way, stall=True)
    assert found.causes[0].id == "deadlock"
    occurrences = [n for n, line in enumerate(SOURCE, 1) if code in line]
    assert any(f"in {PROGRAM.name}:{n} " in found.headline for n in occurrences), found.headline
    assert ending in found.headline


@pytest.mark.thorough
@pytest.mark.skipif(find_program("py-spy") is None, reason="no py-spy")
def test_steps_after_a_threads_last_words_do_not_hide_them(tmp_path: Path) -> None:
    found = explained(tmp_path, "consume", stall=True)
    raised = f"ValueError: shard 21 is empty in {at('raise ValueError(')} prefetch() (step 25)"
    assert found.headline.startswith(f"{raised}; {at('batches.get()')} consume() waited ")
    assert found.headline.endswith(" s for thread prefetch.")


def test_the_program_that_ran_out_of_memory_is_told_from_the_one_that_lost_it(
    tmp_path: Path,
) -> None:
    with small_memory_group("sentence", 400 << 20) as group:
        enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        found = explained(tmp_path, "child", limit=enter)
    assert found.causes[0].id == "host-oom"
    start = "The kernel killed ends_badly.py (child process, pid "
    assert found.headline.startswith(start), found.headline
    lost_it = f"{at('subprocess.run([sys.executable')} starts() then failed."
    if "seen_seconds_before" in found.facts:  # it was looked at while it filled the memory
        place = found.facts["where"]
        assert (place["function"], f"before it was in {PROGRAM.name}:" in found.headline) == (
            "eats",
            True,
        )
    else:
        assert found.headline.endswith(f"the 400 MiB limit (step 5); {lost_it}")
