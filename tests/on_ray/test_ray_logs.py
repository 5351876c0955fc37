"""What Ray's logs say of a worker, in the words of Ray 2.60 and of older ones."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rerail.ray.logs import (
    parse_actor,
    parse_disconnect,
    parse_memory_kill,
    parse_printed,
    said_of_worker,
)

WORKER = "165346c8aedc3e964605ac84139ecb4cb40faf96b0c4b7c52a928e98"
PRINTED = ":job_id:01000000\n:actor_name:Server\nTraceback follows\nValueError: bad\n"
LEFT = (
    "[2026-01-01 00:00:00,000 I 7 9] raylet_ipc_client.cc:133: RayletIpcClient::Disconnect,"
    " exit_type=INTENDED_SYSTEM_EXIT, exit_detail=Worker exits because the actor is killed. The"
    " actor is dead because it was killed by `ray.kill`., has creation_task_exception_pb_bytes=0\n"
)
KILLED = (
    "[2026-01-01 00:00:00,000 I 1 1] (raylet) node_manager.cc:3199: Killing 1 worker(s), kill"
    " details: Memory on the node (IP: 10.0.0.2, ID: 5f50) was 5.84GB used / 23.54GB limit (0.2)\n"
    "OOM kill reason: Memory usage 6223822848B exceeded threshold of 6192747008B\n"
    "Considered workers: [\n"
    "Selected to kill: (Actor(2e18): job ID=01000000, lease ID=00, task name=Server.__init__,"
    f" required resources={{}}, pid=4711, actual memory used=2.61GB, worker ID={WORKER})\n]\n"
)
KILLED_BEFORE = (
    "Memory on the node (IP: 10.0.0.2, ID: 5f50) where the task ran was 28.53GB / 30.00GB (0.951),"
    f" which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: {WORKER})"
    " because it was the most recently scheduled task\n"
)


def test_who_the_worker_was_and_what_it_printed() -> None:
    assert parse_actor(PRINTED) == "Server"
    assert parse_printed(PRINTED) == ["Traceback follows", "ValueError: bad"]


def test_why_it_left_is_the_last_that_it_told_its_raylet() -> None:
    kind, detail = parse_disconnect("nothing\n" + LEFT) or ("", "")
    assert kind == "INTENDED_SYSTEM_EXIT"
    assert detail.endswith("it was killed by `ray.kill`.")
    assert parse_disconnect("nothing") is None


def test_the_memory_monitor_is_known_by_the_worker_that_it_chose() -> None:
    told = "the node used 5.84GB of its 23.54GB, this worker 2.61GB of it"
    assert parse_memory_kill(KILLED, "", 4711) == told
    assert parse_memory_kill(KILLED, WORKER, 1) == told
    assert parse_memory_kill(KILLED, "", 471) is None
    assert parse_memory_kill(KILLED_BEFORE, WORKER, 4711) == "the node used 28.53GB of its 30.00GB"


def test_all_of_it_is_found_in_a_session_folder(tmp_path: Path) -> None:
    (tmp_path / f"worker-{WORKER}-01000000-4711.err").write_text(PRINTED)
    (tmp_path / f"python-core-worker-{WORKER}_4711.log").write_text(LEFT)
    (tmp_path / "raylet.1.out").write_text(KILLED)
    words = said_of_worker(tmp_path, WORKER, 4711)
    assert words.to_json(4711) == {
        "pid": 4711,
        "actor": "Server",
        "exit_type": "INTENDED_SYSTEM_EXIT",
        "exit_detail": "Worker exits because the actor is killed. The actor is dead because it was"
        " killed by `ray.kill`.",
        "memory": "the node used 5.84GB of its 23.54GB, this worker 2.61GB of it",
        "said": ["Traceback follows", "ValueError: bad"],
    }
    assert said_of_worker(tmp_path / "none", WORKER, 4711).to_json(4711) == {"pid": 4711}


@given(st.text(), st.text(max_size=8), st.integers(0, 2**31))
def test_any_text_can_be_read(text: str, worker: str, pid: int) -> None:
    for each in (text, PRINTED + text, LEFT[:200] + text, KILLED[:250] + text):
        parse_actor(each)
        parse_printed(each)
        parse_disconnect(each)
        parse_memory_kill(each, worker, pid)
