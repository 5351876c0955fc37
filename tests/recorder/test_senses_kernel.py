"""OOM kills told from other kills by real cgroups; cgroup, kernel-log and core-file readers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.platform import cgroup
from rerail.platform.cgroup import Hierarchies, Hierarchy
from rerail.recorder.kernel import account as kernel
from rerail.recorder.kernel import cores
from rerail.recorder.kernel import log as kernel_log
from rerail.records import AfterDeath, MemoryLimit

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROGRAM = Path(__file__).parent.parent / "programs" / "senses_moves_and_grows.py"
LIMIT = 48 << 20

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def make_group(name: str, limit_bytes: int | None) -> Path:
    memory = cgroup.read_hierarchies().memory
    if memory is None or os.geteuid() != 0:
        pytest.skip("needs root and a memory cgroup hierarchy")
    folder = Path(memory.mount_point) / name
    try:
        folder.mkdir()
        if limit_bytes is not None:
            file = "memory.limit_in_bytes" if memory.version == 1 else "memory.max"
            (folder / file).write_text(str(limit_bytes))
            swap = "memory.memsw.limit_in_bytes" if memory.version == 1 else "memory.swap.max"
            if (folder / swap).exists():
                (folder / swap).write_text(str(limit_bytes) if memory.version == 1 else "0")
    except OSError as error:
        pytest.skip(f"memory cgroups cannot be made here: {error}")
    return folder


def remove_group(folder: Path) -> None:
    deadline = time.monotonic() + 5
    while folder.exists() and time.monotonic() < deadline:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)


@pytest.fixture
def group() -> Iterator[Path]:
    folder = make_group(f"rerail-senses-{os.getpid()}", LIMIT)
    yield folder
    for inner in folder.iterdir():
        if inner.is_dir():
            remove_group(inner)
    remove_group(folder)


def start(group: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(group), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def limit_of(after: AfterDeath, group: Path) -> MemoryLimit:
    return next(limit for limit in after.memory_limits if limit.source.endswith(group.name))


@linux
def test_an_oom_kill_is_told(group: Path) -> None:
    watch = kernel.begin()
    process = start(group, "now")
    watch.note_process(process.pid)
    while process.poll() is None:
        watch.poll()
        time.sleep(0.02)
    after = watch.finish([(process.pid, 0)])
    end(process)
    assert process.returncode == -signal.SIGKILL
    limit = limit_of(after, group)
    assert limit.limit_bytes == LIMIT
    assert limit.oom_kills == 1
    assert limit.peak_bytes is not None
    assert limit.peak_bytes > 0.9 * LIMIT


@linux
def test_a_kill_by_hand_in_the_same_group_is_no_oom_kill(group: Path) -> None:
    watch = kernel.begin()
    process = start(group, "wait")
    assert process.stdout is not None
    process.stdout.readline()
    watch.note_process(process.pid)
    for _ in range(12):
        watch.poll()
    process.send_signal(signal.SIGKILL)
    process.wait()
    after = watch.finish([(process.pid, 0)])
    end(process)
    assert limit_of(after, group).oom_kills == 0
    assert all(limit.oom_kills == 0 for limit in after.memory_limits)
    assert not any(f"Killed process {process.pid} " in line for line in after.kernel_lines)


@linux
def test_an_earlier_kill_in_the_group_is_not_counted_again(group: Path) -> None:
    first = start(group, "now")
    first.communicate()
    watch = kernel.begin()
    process = start(group, "wait")
    assert process.stdout is not None
    process.stdout.readline()
    watch.note_process(process.pid)
    process.kill()
    process.wait()
    after = watch.finish([(process.pid, 0)])
    end(process)
    assert limit_of(after, group).oom_kills == 0


@linux
def test_an_oom_kill_is_told_when_the_group_is_removed_at_once(group: Path) -> None:
    watch = kernel.begin()
    if watch.log.missing is not None:
        pytest.skip("the kernel's log may not be read here")
    process = start(group, "now")
    process.wait()
    remove_group(group)
    group.mkdir()  # for the fixture; counters start at zero
    after = watch.finish([(process.pid, 0)])
    end(process)
    limit = limit_of(after, group)
    assert limit.oom_kills == 1
    assert limit.limit_bytes == LIMIT


@linux
def test_the_limit_may_be_above_the_group_that_the_process_is_in(group: Path) -> None:
    memory = cgroup.read_hierarchies().memory
    if memory is None or memory.version != 1:
        pytest.skip("inner groups need delegated controllers in version 2")
    inner = group / "inner"
    inner.mkdir()
    watch = kernel.begin()
    process = start(inner, "now")
    watch.note_process(process.pid)
    while process.poll() is None:
        watch.poll()
        time.sleep(0.02)
    after = watch.finish([(process.pid, 0)])
    end(process)
    assert limit_of(after, group).oom_kills == 1


@linux
def test_without_the_kernel_log_counters_alone_tell_it(group: Path) -> None:
    watch = kernel.begin()
    watch.log._close()
    watch.log.missing = "not readable in this test"
    inner = group / "inner"
    inner.mkdir()
    process = start(inner if kernel_is_v1() else group, "wait")
    assert process.stdout is not None
    process.stdout.readline()
    watch.note_process(process.pid)
    process.communicate("\n")
    after = watch.finish([(process.pid, 0)])
    assert limit_of(after, group).oom_kills == 1
    assert after.kernel_lines == []
    assert any("kernel lines" in text for text in after.missing)


def kernel_is_v1() -> bool:
    memory = cgroup.read_hierarchies().memory
    return memory is not None and memory.version == 1


@linux
def test_an_address_space_limit_is_noted(tmp_path: Path) -> None:
    watch = kernel.begin()
    process = subprocess.Popen(
        ["sh", "-c", "ulimit -v 4000000; echo ready; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    watch.note_process(process.pid)
    watch.poll()
    watch.poll()
    process.communicate("\n")
    limits = [m for m in watch.finish([(process.pid, 0)]).memory_limits if m.source == "RLIMIT_AS"]
    assert [limit.limit_bytes for limit in limits] == [4000000 * 1024]
    assert limits[0].peak_bytes is not None


@linux
def test_a_segfault_leaves_its_kernel_line() -> None:
    watch = kernel.begin()
    if watch.log.missing is not None:
        pytest.skip("the kernel's log may not be read here")
    if Path("/proc/sys/debug/exception-trace").read_text().strip() != "1":
        pytest.skip("this kernel does not log faults")
    # A signal that is sent leaves no line; only a fault does. The kernel limits these lines to
    # ten in five seconds for everybody, so that none at all proves nothing.
    process = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(8)"])
    after = watch.finish([])
    assert process.returncode == -signal.SIGSEGV
    lines = [line for line in after.kernel_lines if "segfault" in line]
    if not lines:
        pytest.skip("the kernel's limit on fault lines was reached")
    assert any("at 8 " in line for line in lines)


MOUNTS_V1 = """\
25 30 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 25 0:27 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup rw,memory
32 25 0:28 /docker/abc /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids
33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
MOUNTS_V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1_wins_where_it_holds_the_controller() -> None:
    found = cgroup.parse_mountinfo(MOUNTS_V1)
    assert found.memory == Hierarchy(1, "/sys/fs/cgroup/memory", "/docker/abc")
    assert found.pids == Hierarchy(1, "/sys/fs/cgroup/pids", "/docker/abc")
    membership = "4:memory:/docker/abc/x\n5:pids:/docker/abc\n0::/docker/abc\n"
    assert cgroup.parse_membership(membership, found) == ("/docker/abc/x", "/docker/abc")


def test_version_2_holds_everything_otherwise() -> None:
    found = cgroup.parse_mountinfo(MOUNTS_V2)
    assert found.memory == found.pids == Hierarchy(2, "/sys/fs/cgroup", "/")
    text = "0::/system.slice/slurmstepd.scope/job_1/step_0\n"
    assert cgroup.parse_membership(text, found)[0] == "/system.slice/slurmstepd.scope/job_1/step_0"


def test_a_group_of_version_2_is_read(tmp_path: Path) -> None:
    leaf = tmp_path / "job"
    leaf.mkdir()
    for name, text in {
        "memory.current": "1000\n",
        "memory.max": "4096\n",
        "memory.peak": "3000\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n",
    }.items():
        (leaf / name).write_text(text)
    group = cgroup.MemoryGroup(Hierarchy(2, str(tmp_path), "/"), "/job")
    state = group.state
    assert (state.usage_bytes, state.limit_bytes) == (1000, 4096)
    assert (state.fail_count, state.oom_kills) == (7, 2)
    (leaf / "memory.max").write_text("max\n")
    assert group.read().limit_bytes is None
    group.close()


def test_a_watermark_counts_only_if_it_rose_since_the_first_look(tmp_path: Path) -> None:
    """memory.peak is of the group's life: 3000 bytes at the first look are of a run before."""
    leaf = tmp_path / "job"
    leaf.mkdir()
    for name, text in {"current": "1000", "max": "2048", "peak": "3000"}.items():
        (leaf / f"memory.{name}").write_text(text)
    group = cgroup.MemoryGroup(Hierarchy(2, str(tmp_path), "/"), "/job")
    assert group.read().peak_bytes == 1000
    (leaf / "memory.current").write_text("1500")
    assert group.read().peak_bytes == 1500
    (leaf / "memory.peak").write_text("1900")  # somebody has set it back since
    assert group.read().peak_bytes == 1900
    group.close()


@linux
def test_an_older_watermark_is_not_of_this_run(group: Path) -> None:
    """The group once held 40 MiB; this run holds less, and its share of the limit says so."""
    for keeps_mib in (36, 12):
        watch = kernel.begin()
        code = (
            "import os, sys\n"
            f"open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
            "print('in', flush=True); sys.stdin.readline()\n"
            f"kept = bytearray({keeps_mib} << 20)\n"
            "print('kept', flush=True); sys.stdin.readline()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "in\n"
        watch.note_process(process.pid)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "kept\n"
        limit = limit_of(watch.finish([(process.pid, 0)]), group)
        end(process)
        assert limit.peak_bytes is not None
        assert keeps_mib << 20 <= limit.peak_bytes < (keeps_mib + 12) << 20


def test_a_group_outside_of_the_namespace_falls_back_to_the_mount(tmp_path: Path) -> None:
    assert Hierarchy(2, str(tmp_path), "/").folder("/../../other") == str(tmp_path)
    assert Hierarchy(1, str(tmp_path), "/docker/abc").folder("/docker/abc") == str(tmp_path)


def test_a_chain_goes_up_to_the_root() -> None:
    assert cgroup.chain("/a/b") == ["/a/b", "/a", "/"]
    assert cgroup.chain("/") == ["/"]


@unhurried
@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    hierarchies = cgroup.parse_mountinfo(text)
    cgroup.parse_membership(text, hierarchies)
    cgroup.parse_membership(text, Hierarchies(Hierarchy(1, "/x", "/"), Hierarchy(2, "/x", "/")))
    kernel_log.find_oom_kills(text.splitlines())
    kernel_log.is_relevant(text)


@unhurried
@given(st.binary(max_size=300))
def test_any_kernel_record_is_survived(record: bytes) -> None:
    kernel_log.parse_kmsg(record)


def test_a_kernel_record_is_parsed() -> None:
    record = b"6,1234,98765432,-;python[71]: segfault at 8 ip 00007f sp 00007f\n SUBSYSTEM=x\n"
    assert kernel_log.parse_kmsg(record) == (
        98.765432,
        "python[71]: segfault at 8 ip 00007f sp 00007f",
    )


OOM_REPORT = """\
python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 61440kB, limit 61440kB, failcnt 20
Memory cgroup stats for /job/7:
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[   4711]     0  4711    17777    15296   184320        0             0 python
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job/7,\
task_memcg=/job/7/step,task=python,pid=4711,uid=0
Memory cgroup out of memory: Killed process 4711 (python) total-vm:71108kB, anon-rss:61184kB
"""


def test_an_oom_report_is_one_kill_with_its_limit() -> None:
    kills = kernel_log.find_oom_kills(OOM_REPORT.splitlines())
    assert kills == [
        kernel_log.OomKill(4711, "python", "CONSTRAINT_MEMCG", "/job/7", 61440 * 1024, 20)
    ]


def test_a_kill_of_the_whole_machine_names_no_group() -> None:
    lines = [
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        "task_memcg=/user.slice,task=python3,pid=99,uid=1000",
        "Out of memory: Killed process 99 (python3) total-vm:9kB, anon-rss:9kB",
    ]
    assert kernel_log.find_oom_kills(lines) == [
        kernel_log.OomKill(99, "python3", "CONSTRAINT_NONE", None)
    ]


def test_bystanders_of_a_kill_are_left_out() -> None:
    kept = [line for line in OOM_REPORT.splitlines() if kernel_log.is_relevant(line)]
    assert not any(line.startswith("[ ") for line in kept)
    assert not kernel_log.is_relevant(" oom_kill_process.cold+0x8/0x8a")
    assert any("Killed process" in line for line in kept)


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("core", "core", True),
        ("core", "core.4711", True),
        ("core.%e.%p", "core.python.4711", True),
        ("core-%%-%p", "core-%-71", True),
        ("core", "score", False),
        ("|/usr/share/apport %p", "core", False),
    ],
)
def test_core_files_are_found_by_pattern(
    tmp_path: Path, pattern: str, name: str, is_found: bool
) -> None:
    elf_core = b"\x7fELF\x02\x01" + bytes(10) + b"\x04\x00" + bytes(8)
    (tmp_path / name).write_bytes(elf_core)
    (tmp_path / "core.py").write_text("print('not a core')\n")
    found = cores.find_core_files(pattern, [tmp_path], time.time() - 60)
    assert found == ([str(tmp_path / name)] if is_found else [])
    assert cores.find_core_files(pattern, [tmp_path], time.time() + 60) == []
