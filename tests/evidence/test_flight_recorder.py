"""Dumps of PyTorch's Flight Recorder: real ones of gloo, their structure changed, hostile ones."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail.errors import UnreadableInput
from rerail.evidence.first.dumps import judge_dumps
from rerail.evidence.text.flight_dumps import is_dump, is_dump_name, rank_of_dump, read_dump
from rerail.evidence.text.plain_pickle import NotPlain, read_plain

PROGRAM = Path(__file__).parent.parent / "programs" / "flight_ranks.py"


def explained(*paths: Path) -> dict[str, Any]:
    return rerail.explain([str(path) for path in paths]).to_json()


# ---- three real ranks ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["absent", "other"])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("torch._C._distributed_c10d", reason="needs torch.distributed")
    folder = tmp_path_factory.mktemp(request.param)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), str(rank), request.param],
            env=environment,
        )
        for rank in range(3)
    ]
    try:
        assert [rank.wait(180) for rank in ranks] == [0, 0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    yield request.param, folder


@pytest.mark.thorough
def test_the_right_rank_is_named_by_pickles_of_real_ranks(job: tuple[str, Path]) -> None:
    what, folder = job
    answer = explained(*sorted(folder.glob("fr_trace_rank_*")))
    assert answer["facts"]["failed_first"] == "rank 1"
    if what == "absent":
        assert answer["causes"][0]["id"] == "collective-timeout"
        line = line_of("    dist.all_reduce(tensor)")
        assert answer["headline"] == (
            f"Rank 1 had not entered all_reduce #4 (flight_ranks.py:{line} step) in which ranks 0"
            f" and 2 waited; its last was all_reduce #3 (flight_ranks.py:{line} step)."
        )
    else:
        assert answer["causes"][0]["id"] == "collective-mismatch"
        line = line_of("    dist.broadcast(tensor, 0)")
        assert answer["headline"].startswith(
            f"Rank 1 called broadcast #4 in flight_ranks.py:{line} <module> while ranks 0 and 2"
            " called all_reduce #4 in flight_ranks.py:"
        )
        assert answer["facts"]["where"]["line"] == line


@pytest.mark.thorough
def test_the_right_rank_is_named_by_json_which_has_no_lines(job: tuple[str, Path]) -> None:
    what, folder = job
    answer = explained(*sorted(folder.glob("fr_trace_*.json")))
    assert answer["facts"]["failed_first"] == "rank 1"
    cause = {"absent": "collective-timeout", "other": "collective-mismatch"}[what]
    assert answer["causes"][0]["id"] == cause


def test_a_folder_of_both_kinds_is_read_as_one_job(job: tuple[str, Path]) -> None:
    answer = explained(job[1])
    assert answer["facts"]["failed_first"] == "rank 1"
    assert answer["facts"]["dumps_read"] == 3


def test_a_real_dump_is_read_as_pickle_reads_it(job: tuple[str, Path]) -> None:
    raw = (job[1] / "fr_trace_rank_0").read_bytes()
    assert read_plain(raw) == pickle.loads(raw)


def line_of(text: str) -> int:
    return PROGRAM.read_text().split("\n").index(text) + 1


# ---- as NCCL's watchdog writes them: the same structure, with states -----------------------------


def entry(sequence: int, op: str = "all_reduce", state: str = "completed", **more: Any) -> dict:
    return {
        "record_id": sequence - 1,
        "collective_seq_id": sequence,
        "op_id": sequence,
        "profiling_name": f"nccl:{op}",
        "process_group": ("0", "default_pg"),
        "input_sizes": [[1024]],
        "is_p2p": False,
        "retired": state == "completed",
        "state": state,
        "time_created_ns": 10**18 + sequence,
        "frames": [
            {"filename": "/x/site-packages/torch/distributed/c10d.py", "line": 1, "name": "f"},
            {"filename": "/home/me/train.py", "line": 88, "name": "step"},
        ],
        **more,
    }


def write(folder: Path, rank: int, entries: list[dict], ranks: str = "[0, 1, 2]") -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}, **PIPE}
    document = {"version": "2.10", "pg_config": config, "entries": entries}
    (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(document, 2))


PIPE = {"7": {"name": "7", "desc": "tensor", "ranks": "[1, 2]"}}


def test_a_rank_that_never_came(tmp_path: Path) -> None:
    for rank in range(3):
        last = [entry(1204, state="started")] if rank != 1 else []
        write(tmp_path, rank, [entry(1203), *last])
    answer = explained(tmp_path)
    assert answer["facts"]["failed_first"] == "rank 1"
    assert answer["headline"].startswith(
        "Rank 1 had not entered all_reduce #1,204 (train.py:88 step) in which ranks 0 and 2 waited"
    )


def test_a_rank_that_queued_it_and_did_not_start_it(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, [entry(1, state="scheduled" if rank == 2 else "started")])
    answer = explained(tmp_path)
    assert answer["headline"] == (
        "Rank 2 had queued all_reduce #1 (train.py:88 step) and not started it while ranks 0 and 1"
        " waited in it."
    )


def test_another_size_at_the_same_place(tmp_path: Path) -> None:
    for rank in range(3):
        sizes = [[512]] if rank == 2 else [[1024]]
        write(tmp_path, rank, [entry(1), entry(2, state="started", input_sizes=sizes)])
    answer = explained(tmp_path)
    assert answer["causes"][0]["id"] == "collective-mismatch"
    assert "Rank 2 called all_reduce #2 of 512 instead of 1024" in answer["headline"]


def test_the_rank_that_others_wait_for_in_a_chain_of_groups(tmp_path: Path) -> None:
    """Rank 0 waits for 1, which waits in a group of its own for 2."""
    of_two = {"process_group": ("7", "tensor"), "op_id": 9}
    write(tmp_path, 0, [entry(1), entry(2, state="started")])
    write(tmp_path, 1, [entry(1), entry(1, state="started", **of_two)])
    write(tmp_path, 2, [entry(1)])
    assert explained(tmp_path)["facts"]["failed_first"] == "rank 2"


def test_ranks_that_finished_everything_are_not_accused(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, [entry(1), entry(2)])
    answer = explained(tmp_path)
    assert "failed_first" not in answer["facts"]
    assert answer["causes"] == []


def test_one_dump_of_several_accuses_nobody(tmp_path: Path) -> None:
    write(tmp_path, 0, [entry(1), entry(2, state="started")])
    answer = explained(tmp_path)
    assert "failed_first" not in answer["facts"]
    assert "ranks 1 and 2 of its group left no dump here" in answer["headline"]


def test_what_a_log_says_of_the_rank_s_own_failure_goes_first(tmp_path: Path) -> None:
    for rank in range(3):
        last = [entry(2, state="started")] if rank != 1 else []
        write(tmp_path, rank, [entry(1), *last])
    raised = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 9, in <module>\n'
    raised += "    x = rows[7]\nIndexError: list index out of range\n"
    (tmp_path / "rank_1.log").write_text(raised)
    answer = explained(tmp_path)
    assert answer["facts"]["exception"] == "IndexError"


def test_where_the_others_gave_up_is_not_where_it_failed(tmp_path: Path) -> None:
    for rank in range(3):
        last = [entry(2, state="started")] if rank != 1 else []
        write(tmp_path, rank, [entry(1), *last])
        if rank != 1:
            said = 'Traceback (most recent call last):\n  File "/home/me/train.py", line 9, in f\n'
            said += "    dist.all_reduce(x)\nRuntimeError: Timed out waiting 4000ms for recv\n"
            (tmp_path / f"rank_{rank}.log").write_text(said)
    answer = explained(tmp_path)
    assert answer["headline"].startswith("Rank 1 had not entered all_reduce #2")
    assert answer["facts"]["failed_first"] == "rank 1"
    assert "where" not in answer["facts"]


# ---- hostile -------------------------------------------------------------------------------------


class Runs:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.mark}'",)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_that_would_run_a_command_is_refused(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "it-ran"
    document = {"version": "1", "pg_config": {}, "entries": [Runs(mark)]}
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(document, protocol))
    with pytest.raises(UnreadableInput, match="no plain value"):
        explained(path)
    assert not mark.exists()


NESTED_KEY = b"\x80\x02}(" + b")" + b"q\x00h\x00\x86" * 100 + b"K\x01u."
HOSTILE = {
    "nested": b"\x80\x02" + b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
    "a key of tuples in tuples": NESTED_KEY,
    "a high place in the memo, which is a dict here": b"\x80\x02Nr\xff\xff\xff\x7f(.",
    "text longer than the file": b"\x80\x02X\xff\xff\xff\xff.",
    "a persistent id": b"\x80\x02Pabc\n.",
    "an object of an extension": b"\x80\x02\x82\x01.",
    "cut off": b"\x80\x02}(X\x01",
    "nothing on the stack": b"\x80\x02u.",
    "no end": b"\x80\x02" + b"N" * 4_000_000,
    "a frame beyond the end": b"\x80\x04\x95" + b"\xff" * 8 + b".",
    "empty": b"",
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_pickles_are_refused(what: str) -> None:
    with pytest.raises(NotPlain):
        read_plain(HOSTILE[what])


def test_deep_json_and_large_files_are_refused() -> None:
    for raw in (b'{"entries": ' + b"[" * 1_000_000, b'{"entries": ["' + b"a" * (17 << 20) + b'"]}'):
        with pytest.raises(UnreadableInput):
            read_dump(raw, "fr_trace_0.json")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(PLAIN, st.integers(min_value=3, max_value=5))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    assert read_plain(pickle.dumps(value, protocol)) == value


@given(st.data())
def test_entries_of_any_kind_cost_themselves_only(data: st.DataObject) -> None:
    dumps = []
    for rank in range(2):
        whole = entry(data.draw(st.integers(1, 3)), state="started")
        odd = {key: data.draw(PLAIN | st.just(value)) for key, value in whole.items()}
        document = {"entries": [whole, odd, data.draw(PLAIN)], "pg_config": data.draw(PLAIN)}
        raw = json.dumps(document, default=str).encode()
        dumps.append(read_dump(raw, f"fr_trace_{rank}.json"))
    judge_dumps(copy.deepcopy(dumps))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    is_dump(raw)
    try:
        read_plain(b"\x80\x02" + raw)
    except NotPlain:
        pass


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("node-3/comm_lib_trace_rank_0", 0),
        ("fr_trace_7.json", 7),
        ("nccl_trace_job4711_rank3.pkl", 3),
        ("fr_trace", None),
    ],
)
def test_the_rank_stands_in_the_name(name: str, rank: int | None) -> None:
    assert rank_of_dump(name) == rank
    assert is_dump_name(name)


# ---- a recorded run ------------------------------------------------------------------------------

LEAVES_DUMPS = """
import pickle, sys
for rank in range(3):
    entries = [{{"record_id": 0, "collective_seq_id": 1, "profiling_name": "nccl:all_reduce",
                 "process_group": ("0", "default_pg"), "state": "completed"}}]
    if rank != 2:
        entries.append({{**entries[0], "record_id": 1, "collective_seq_id": 2, "state": "started"}})
    document = {{"version": "2.10", "pg_config": {{}}, "entries": entries}}
    with open({prefix!r} + str(rank), "wb") as file:
        pickle.dump(document, file, 2)
sys.exit(7)
"""


@pytest.mark.parametrize("variable", [None, "TORCH_FR_DUMP_TEMP_FILE"])
def test_dumps_that_a_recorded_run_left_are_read(tmp_path: Path, variable: str | None) -> None:
    work, home, place = tmp_path / "work", tmp_path / "home", tmp_path / "elsewhere"
    work.mkdir()
    place.mkdir()
    (work / "nccl_trace_rank_3").write_bytes(pickle.dumps({"pg_config": {}, "entries": []}, 2))
    os.utime(work / "nccl_trace_rank_3", (0, 0))  # of an earlier run
    prefix = str(place / "of_rank_") if variable else "nccl_trace_rank_"
    (work / "train.py").write_text(LEAVES_DUMPS.format(prefix=prefix))
    unset = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    environ |= {variable: prefix} if variable else {}
    words = ["run", "--home", str(home), "--", sys.executable, "train.py"]
    command = [sys.executable, "-m", "rerail", *words]
    ran = subprocess.run(command, cwd=work, env=environ, capture_output=True, timeout=180)
    assert ran.returncode == 7, ran.stderr
    answer = rerail.explain("last", home=home).to_json()
    assert answer["facts"]["failed_first"] == "rank 2"
    assert answer["headline"].startswith("Rank 2 had not entered all_reduce #2 in which ranks 0")
