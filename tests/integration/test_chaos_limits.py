"""Whatever there is too little of, the command runs, once, and ends as it does without rerail."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import DEADLINE_SECONDS, PROGRAMS, Terminal

RERAIL = [sys.executable, "-m", "rerail", "run"]
SPEAKS = ["sh", "-c", "echo a; echo e >&2; exit 7"]
PRINTS_MUCH = ["sh", "-c", "head -c 200000 /dev/zero; kill -9 $$"]
FORKS = ["sh", "-c", "echo a; /bin/true || echo failed; /bin/echo b; exit 7"]
MIB = 1 << 20
Enter = Callable[[], None]


def run(command: Sequence[str], enter: Enter) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        preexec_fn=enter,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def can_start_python(enter: Enter) -> bool:
    """The bound of the promise: an interpreter that runs a program of a few lines."""
    return run([sys.executable, "-c", "import json, argparse"], enter).returncode == 0


def assert_ends_as_bare(home: Path, command: Sequence[str], enter: Enter, where: str) -> bool:
    """Whether it was recorded, too."""
    bare = run(command, enter)
    done = run([*RERAIL, "--home", str(home), "--no-explain", "--", *command], enter)
    own = [line for line in done.stderr.splitlines() if not line.startswith(b"rerail: ")]
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), (where, done.stderr)
    assert own == bare.stderr.splitlines(), where
    said = done.stderr.count(b"the command runs without rerail")
    assert said <= 1, where
    return not said


def limited(what: int, value: int) -> Enter:
    return lambda: resource.setrlimit(what, (value, value))


def assert_under_limits(home: Path, what: int, values: Sequence[int]) -> None:
    recorded = []
    for value in values:
        enter = limited(what, value)
        if not can_start_python(enter):
            continue
        for command in (SPEAKS, PRINTS_MUCH):
            recorded.append(assert_ends_as_bare(home, command, enter, f"limit {value}"))
    assert recorded, "no value leaves room for Python itself"
    assert recorded[-1], "the largest value leaves room to record"


@pytest.mark.thorough
@pytest.mark.parametrize("values", [[8, 16, 24, 64], [10, 20, 28, 80]])
def test_few_descriptors(tmp_path: Path, values: list[int]) -> None:
    assert_under_limits(tmp_path, resource.RLIMIT_NOFILE, values)


@pytest.mark.slow
def test_every_number_of_descriptors(tmp_path: Path) -> None:
    assert_under_limits(tmp_path, resource.RLIMIT_NOFILE, range(4, 81))


@pytest.mark.parametrize("limit", [8, 14, 18, 22, 26, 30, 34, 60])
def test_few_descriptors_in_a_terminal(tmp_path: Path, limit: int) -> None:
    answers = "test -t 0 && test -t 1 && echo is a terminal; read word; echo got $word; exit 7"
    python = shlex.quote(sys.executable)
    rerail = f"{python} -m rerail run --home {shlex.quote(str(tmp_path))} --no-explain"
    with Terminal(
        ["sh", "-c", f'ulimit -n {limit}; exec {rerail} -- sh -c "$0"', answers]
    ) as shell:
        shell.expect("is a terminal")
        shell.type("hello\n")
        shell.expect("got hello")
        assert shell.wait() == 7


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds to a limit of address space")
@pytest.mark.parametrize("what", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_little_address_space(tmp_path: Path, what: int) -> None:
    assert_under_limits(tmp_path, what, [value * MIB for value in (16, 28, 44, 600)])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds to a limit of address space")
@pytest.mark.parametrize("what", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_every_size_of_address_space(tmp_path: Path, what: int) -> None:
    sizes = [*range(4, 100), 120, 150, 200, 300, 600]
    assert_under_limits(tmp_path, what, [value * MIB for value in sizes])


@pytest.mark.parametrize("blocks", [0, 1, 64])
def test_files_that_may_not_grow(tmp_path: Path, blocks: int) -> None:
    enter = limited(resource.RLIMIT_FSIZE, blocks * 512)
    assert_ends_as_bare(tmp_path, SPEAKS, enter, f"{blocks} blocks")


def test_as_many_processes_as_the_user_may_have(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may go past its own limit of processes")
    for limit in (1, 50, 400):
        enter = limited(resource.RLIMIT_NPROC, limit)
        assert_ends_as_bare(tmp_path, SPEAKS, enter, f"{limit} processes")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str, int], Enter]]:
    """A control group of our own: the controller, the file with its limit, the limit."""
    made: list[Path] = []

    def limit(controller: str, name: str, value: int) -> Enter:
        folder = _own_group(controller) / f"rerail-test-{uuid.uuid4().hex[:8]}"
        try:
            folder.mkdir()
            made.append(folder)
            (folder / name).write_text(str(value))
        except OSError as error:
            pytest.skip(f"no {controller} group of version 1 can be made here: {error}")
        return lambda: (folder / "cgroup.procs").write_text(str(os.getpid())) and None

    yield limit
    for folder in made:
        folder.rmdir()


def _own_group(controller: str) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(f"/sys/fs/cgroup/{controller}{path}")
    pytest.skip(f"there is no {controller} controller of version 1 here")


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
@pytest.mark.parametrize("limit", [12, 25, 40, 120])
def test_a_memory_group(
    tmp_path: Path, group: Callable[[str, str, int], Enter], limit: int
) -> None:
    enter = group("memory", "memory.limit_in_bytes", limit * MIB)
    was_recorded = assert_ends_as_bare(tmp_path, SPEAKS, enter, f"{limit} MiB")
    assert was_recorded == (limit == 120)


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 12, 40])
def test_a_group_of_few_processes(
    tmp_path: Path, group: Callable[[str, str, int], Enter], limit: int
) -> None:
    enter = group("pids", "pids.max", limit)
    was_recorded = assert_ends_as_bare(tmp_path, FORKS, enter, f"{limit} processes")
    assert was_recorded == (limit == 40)


def fail_at(place: int, kind: str, folder: Path) -> None:
    """One call of rerail's own fails; the command leaves a mark each time that it is run."""
    mark = folder / f"ran-{place}-{kind}"
    command = ["sh", "-c", f"echo x >> '{mark}'; echo a; echo e >&2; exit 7"]
    program = [sys.executable, str(PROGRAMS / "run_fail_at_call.py"), str(place), kind]
    options = ["run", "--home", str(folder / "home"), "--no-explain", "--"]
    done = run([*program, *options, *command], lambda: None)
    where = (place, kind, done.stderr)
    own = [line for line in done.stderr.splitlines() if not line.startswith(b"rerail: ")]
    assert (done.returncode, done.stdout, own) == (7, b"a\n", [b"e"]), where
    assert mark.read_text() == "x\n", where


KINDS = ["EMFILE", "ENOMEM", "ENOSPC", "MemoryError", "ImportError", "RecursionError"]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_one_call_fails(tmp_path: Path, kind: str) -> None:
    for place in range(1 + KINDS.index(kind), 1500, 211):
        fail_at(place, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_every_call_fails_once(tmp_path: Path, part: int) -> None:
    for place in range(1 + part, 1500, 10):
        fail_at(place, KINDS[place // 10 % len(KINDS)], tmp_path)
