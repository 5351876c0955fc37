"""Writing a run down never raises, and says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.records import Outcome
from rerail.store import RunFolder, RunWriter, Store, layout
from rerail.store.output_log import SHORT_OF_SPACE

OK = Outcome("ok", "ended well", exit_code=0)


def use_every_method(writer: RunWriter) -> None:
    writer.update_info(root_pid=4711)
    writer.event("note", text="hello")
    writer.output(b"line\n" * 1000, "stdout", 0.1)
    writer.append("stalls.jsonl", {"t": 1})
    writer.write_json("after.json", {"a": 1})
    writer.write_json("maps/1-2.json", [])
    writer.event("process-ended", pid=4711, start=1, exit_code=0, signal=None, core=False,
                 source="wait")  # fmt: skip
    writer.finish(OK, 1.0)


def test_the_beginning_is_written_by_itself(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    writer.event("run-started", schema=1)  # said twice, kept once
    (started,) = RunFolder(writer.path).events()
    assert (started.kind, started.t_seconds) == ("run-started", 0.0)
    assert started.data["monotonic_ns"] == writer.t0_ns == RunFolder(writer.path).t0_ns
    assert (writer.path / "agent").is_dir()
    assert RunFolder(writer.path).info() == writer.info


def test_an_ending_is_written_once(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    writer.finish(OK, 1.0)
    assert [e.kind for e in RunFolder(writer.path).events()] == ["run-started", "run-ended"]
    assert RunFolder(writer.path).info().outcome == OK


def test_times_are_rounded_and_may_be_given(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    writer.event("note", t_seconds=1.23456, text="x")
    assert list(RunFolder(writer.path).events())[-1].t_seconds == 1.235


def test_a_store_removed_during_the_run_is_noticed_and_nothing_raises(
    new_run: Callable[..., RunWriter], store: Store
) -> None:
    writer = new_run()
    writer.output(b"before\n", "stdout", 0.0)
    shutil.rmtree(store.home)
    use_every_method(writer)
    assert ("run folder", "it was removed during the run") in writer.missing
    assert not store.home.exists()


def test_a_store_that_cannot_be_made_sends_the_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setattr("rerail.store.store.fallback_home", lambda: elsewhere)
    store = Store(tmp_path / "file" / ".rerail")
    writer = store.create_run(["x"], "/", {}, False)
    use_every_method(writer)
    assert writer.path.is_relative_to(elsewhere)
    assert RunFolder(writer.path).info().outcome == OK
    ((what, why),) = writer.missing
    assert str(store.home) in what
    assert why == "not a directory"
    assert RunFolder(writer.path).missing() == writer.missing


def test_where_nothing_can_be_written_the_run_goes_nowhere_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr("rerail.store.store.fallback_home", lambda: tmp_path / "file" / "x")
    writer = Store(tmp_path / "file" / ".rerail").create_run(["x"], "/", {}, False)
    use_every_method(writer)
    assert len(writer.missing) >= 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_somebody_elses_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real"
    real.mkdir()
    planted = tmp_path / "planted"
    planted.symlink_to(real)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr("rerail.store.store.fallback_home", lambda: planted)
    writer = Store(tmp_path / "file" / ".rerail").create_run(["x"], "/", {}, False)
    use_every_method(writer)
    assert list(real.iterdir()) == []


def test_a_killed_recorders_run_is_lost_and_can_be_adopted(store: Store) -> None:
    code = (
        "import os, signal, sys\n"
        "from rerail.store import Store\n"
        "w = Store(sys.argv[1]).create_run(['x'], '/', {}, False)\n"
        "w.update_info(root_pid=os.getpid())\n"
        "w.output(b'one\\ntwo', 'stdout', 0.1)\n"
        "(w.path / 'events.jsonl').open('ab', buffering=0).write(b'{\"t\": 1, \"ki')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store.home)], check=False, timeout=180)
    assert done.returncode == -signal.SIGKILL
    folder = store.resolve("last")
    assert folder.info().state == "lost"
    assert folder.info().elapsed_seconds == 0.0
    assert folder.info().outcome is None

    writer = RunWriter.adopt(folder.path)
    assert folder.info().state == "running"
    writer.event("note", text="the guardian goes on")
    writer.output(b" and a half\nthree\n", "stdout", 0.2)
    writer.finish(OK, 2.0)
    assert [e.kind for e in folder.events()] == ["run-started", "note", "run-ended"]
    lines = [(line.number, line.text) for line in folder.output()]
    assert lines == [(1, b"one"), (2, b"two and a half"), (3, b"three")]
    assert folder.info().state == "ended"


def test_a_forked_guardian_keeps_the_run_alive(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    folder = RunFolder(writer.path)
    reading, writing = os.pipe()
    guardian = os.fork()
    if guardian == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        # What the death of the recorder does: its descriptor closes, the guardian's stays.
        os.close(writer.lock_descriptor)
        writer._lock = -1
        assert folder.is_live()
    finally:
        os.close(writing)
        os.waitpid(guardian, 0)


def test_a_run_is_live_also_as_seen_from_another_pid_namespace(
    new_run: Callable[..., RunWriter], unshare: list[str]
) -> None:
    writer = new_run()
    code = "import sys; from rerail.store import RunFolder; print(RunFolder(sys.argv[1]).is_live())"
    command = [*unshare, "--pid", "--fork", sys.executable, "-c", code, str(writer.path)]
    seen = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    if "unshare" in seen.stderr:
        pytest.skip(f"no pid namespace to be had: {seen.stderr.strip()}")
    assert seen.stdout.strip() == "True", seen.stderr
    writer.close()
    seen = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert seen.stdout.strip() == "False", seen.stderr


def test_the_command_does_not_keep_its_own_run_alive(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        writer.update_info(recorder_scope="")  # so that the lock alone answers
        writer.close()
        assert not RunFolder(writer.path).is_live()
    finally:
        child.communicate(timeout=180)


@pytest.fixture
def small_disk(mount_tmpfs: Callable[[str], Path]) -> Path:
    return mount_tmpfs("size=2m")


@pytest.mark.thorough
def test_output_leaves_the_disk_to_a_checkpoint(mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=20m")
    writer = Store(disk / ".rerail").create_run(["x"], "/", {}, False)
    for i in range(2250):  # 18 MB, as a command prints them within 22 s
        writer.output(b"%07d\n" % i * 1000, "stdout", i * 0.01)
    writer.output(b"Traceback: the end\n", "stderr", 22.6)
    (disk / "checkpoint.pt").write_bytes(bytes(12 * 1024 * 1024))
    writer.finish(Outcome("exit", "exit 1", exit_code=1), 23.0)
    folder = RunFolder(writer.path)
    assert ("output", SHORT_OF_SPACE) in folder.missing()
    assert "output-dropped" in [event.kind for event in folder.events()]
    lines = list(folder.output())
    assert lines[0].text == b"0000000"
    assert (lines[-1].number, lines[-1].text) == (2_250_001, b"Traceback: the end")
    assert all(
        line.text == b"%07d" % ((line.number - 1) // 1000) for line in lines[:-1] if line.is_whole
    )


def test_a_full_disk_still_gets_the_ending(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.store.output_log.RETRY_SECONDS", 0.0)
    # Other programs fill a disk between two checks: the limit comes too late here.
    monkeypatch.setattr("rerail.store.disk_reserve.ALWAYS_STORED_BYTES", 1 << 30)
    writer = Store(small_disk / ".rerail").create_run(["x"], "/", {}, False)
    writer.update_info(root_pid=1)
    for i in range(600):
        writer.output(b"%07d\n" % i * 1000, "stdout", i * 0.01)
        writer.event("note", text="x" * 100)
    assert ("output", "no space left on device") in writer.missing
    writer.event("process-ended", pid=1, start=1, exit_code=1, signal=None, core=False,
                 source="wait")  # fmt: skip
    assert writer.write_json("after.json", {"kernel_lines": ["x" * 20_000]})
    writer.finish(Outcome("exit", "exit 1", exit_code=1), 2.0)
    folder = RunFolder(writer.path)
    assert folder.info().state == "ended"
    assert folder.processes()[0].exit_code == 1
    kinds = [event.kind for event in folder.events()]
    assert kinds[-1] == "run-ended"
    assert "output-dropped" in kinds
    assert ("output", "no space left on device") in folder.missing()
    for line in folder.output():
        if line.is_whole:
            assert line.number == int(line.text) * 1000 + 1 or line.text == b"%07d" % (
                (line.number - 1) // 1000
            )


def test_a_disk_that_empties_again_gets_what_waited(small_disk: Path) -> None:
    writer = Store(small_disk / ".rerail").create_run(["x"], "/", {}, False)
    hog = small_disk / "hog"
    descriptor = os.open(hog, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except OSError:
        os.close(descriptor)
    for i in range(500):
        writer.event("note", text="y" * 50, i=i)
    assert ("events.jsonl", "no space left on device") in writer.missing
    hog.unlink()
    writer.finish(OK, 1.0)
    notes = [e.data["i"] for e in RunFolder(writer.path).events() if e.kind == "note"]
    assert notes == list(range(500))


def test_layout_names_are_private_and_unique(tmp_path: Path) -> None:
    ids = {layout.new_run_id(0.0) for _ in range(50)}
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) for name in ids)
    assert all(name.startswith("19700101-000000-") for name in ids)
