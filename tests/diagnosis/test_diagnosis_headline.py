"""The first sentence: the fact, with who, what, where, when and how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rerail.catalogue import load_catalogue
from rerail.diagnosis import Candidate, Diagnosis, explain_logs
from rerail.diagnosis.fitting import fitted
from rerail.records import Observation, Outcome

CATALOGUE = load_catalogue()


def said(cause: str, facts: dict[str, Any], probability: float = 0.9, **known: Any) -> str:
    outcome = known.pop("outcome", Outcome("exit", "the command ended with exit code 1"))
    candidate = Candidate(CATALOGUE[cause], probability)
    return Diagnosis(outcome, (candidate,), facts, **known).headline


WHERE = {"file": "/home/me/tr.py", "line": 7, "function": "collate", "process": "rank 1"}


@pytest.mark.parametrize(
    ("cause", "facts", "headline"),
    [
        (
            "host-memory-leak",
            {
                "growth": {"bytes_per_step": 8007082},
                "memory_limit_bytes": 700 << 20,
                "last_step": 304,
            },
            "Memory grew 7.6 MiB every step until the 700 MiB limit (step 304).",
        ),
        (
            "python-exception",
            {"exception_text": "ValueError: bad sample 4711\nno", "where": WHERE, "last_step": 12},
            "ValueError: bad sample 4711 in tr.py:7 collate() (rank 1, step 12).",
        ),
        (
            "deadlock",
            {
                "hang": {
                    "seconds": 48.0,
                    "kind": "stuck",
                    "waits_for": "a lock",
                    "holder": {
                        "thread": "thread 2", "file": "hang.py", "line": 12, "function": "flush"
                    },
                },
                "where": {"file": "hang.py", "line": 7, "function": "save"},
            },
            "It hung for 48 s in hang.py:7 save(), waiting for a lock that thread 2 holds in "
            "hang.py:12 flush().",
        ),
        (
            "native-segfault",
            {"crash_signal": "SIGSEGV", "library": "x.so", "function": "f", "where": WHERE},
            "SIGSEGV in tr.py:7 collate() (rank 1), inside f() of x.so.",
        ),
        ("native-segfault", {}, "Native code crashed."),
        (
            "thread-limit",
            {"threads": 25, "threads_limit": 30, "where": WHERE},
            "No thread or process could be created beyond the limit of 30 in tr.py:7 collate() "
            "(rank 1).",
        ),
        (
            "checkpoint-corrupt",
            {
                "exception_text": "RuntimeError: failed finding central directory",
                "file_in_hand": "out/ckpt.pt",
            },
            "out/ckpt.pt is cut off, damaged or no checkpoint: RuntimeError: failed finding "
            "central directory.",
        ),
        (
            "gpu-oom",
            {"exception_text": "torch.OutOfMemoryError: CUDA out of memory."},
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        (
            "killed-from-outside",
            {"victim": "rank 1", "last_step": 41220},
            "Somebody killed rank 1 with SIGKILL at step 41,220, and it was not the kernel for "
            "memory.",
        ),
    ],
)  # fmt: skip
def test_the_fact_comes_first(cause: str, facts: dict[str, Any], headline: str) -> None:
    assert said(cause, facts) == headline


def test_the_step_of_the_first_bad_loss_stands_alone() -> None:
    """The program's own count may begin at 0, or count what it prints: "step 2 … (step 0)"."""
    facts = {
        "nonfinite_since_step": 2,
        "last_step": 0,
        "exception_text": "AssertionError: loss is nan",
        "where": {"file": "train.py", "line": 132, "function": "<module>"},
    }
    bad = Observation("nonfinite-loss", "", "box:7", {"step": 2, "value": "not finite"})
    assert said("loss-not-finite", facts, observations=(bad,)) == (
        "The loss became not finite at step 2; then AssertionError: loss is nan in train.py:132."
    )


def test_the_last_words_before_an_exit_are_quoted() -> None:
    facts = {"exit_caller": "the program", "exit_call": "sys.exit(3)", "where": WHERE}
    words = 'ts=1 event=error msg="no interactions left after filtering by min_dwell=100000"'
    last = Observation("last-words", words, "output:2", {"message": words})
    assert said("data-schema-mismatch", facts, observations=(last,)) == (
        "The program called sys.exit(3) in tr.py:7 collate(): no interactions left after"
        " filtering by min_dwell=100000."
    )


def test_in_doubt_it_says_what_was_seen_and_what_it_may_be() -> None:
    doubtful = said("disk-full", {"exception_text": "OSError: [Errno 5]", "where": WHERE}, 0.3)
    assert doubtful.startswith("OSError: [Errno 5] in tr.py:7 collate() (rank 1); it may be this:")
    residual = said("python-exception", {"exception_text": "KeyError: 'a'"}, 0.3)
    assert residual == "KeyError: 'a'."


def test_a_busy_run_did_not_hang() -> None:
    busy = said("user-interrupt", {"hang": {"seconds": 48.0, "kind": "busy"}})
    assert "hung" not in busy


def test_a_long_message_is_cut() -> None:
    assert len(said("python-exception", {"exception_text": "ValueError: " + "x" * 9000})) < 200


def test_who_was_killed_is_said_without_when() -> None:
    seen = {"role": "loader-worker", "pid": 4711, "signal": "SIGKILL"}
    died = Observation("death", "It died, 3 s after the start.", "exit:4711", seen)
    headline = said("worker-crashed", {}, observations=(died,))
    assert headline == "A DataLoader worker (pid 4711) was killed by SIGKILL."


def remedies(cause: str, facts: dict[str, Any]) -> list[str]:
    return [remedy.id for remedy in fitted(CATALOGUE[cause], facts, {}).remedies]


def test_remedies_are_those_of_what_the_run_used() -> None:
    assert "fewer-workers" not in remedies("host-oom", {"uses": ["python"]})
    assert "fewer-workers" in remedies("host-oom", {"uses": ["torch"], "loader_workers": 4})
    assert "fewer-workers" in remedies("host-oom", {})  # of a log nobody knows


def test_a_log_gets_no_remedy_that_needs_a_record_or_other_last_words() -> None:
    assert remedies("native-segfault", {}) == ["record-it", "upgrade"]
    assert remedies("native-segfault", {"run": "4f1a"}) == ["check-the-call", "upgrade"]
    assert "end-threads-first" in remedies("native-segfault", {"terminated": "without"})


def test_a_remedy_names_the_package(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("ModuleNotFoundError: No module named 'cv2.dnn'\n")
    (first, *_) = explain_logs([log]).causes[0].remedies
    assert first.title.endswith("pip install opencv-python-headless")


def test_the_place_in_a_log_is_the_programs_own(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 12, in main\n'
        "    fit(x)\n"
        '  File "/home/me/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 5,'
        " in forward\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x1)\n"
    )
    diagnosis = explain_logs([log])
    where = {"file": "/home/me/train.py", "line": 12, "function": "main", "code": "fit(x)"}
    assert diagnosis.facts["where"] == where
    assert diagnosis.headline.endswith("in train.py:12 main().")


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to [10.0.0.1]:29500"
            " (errno: 110 - Connection timed out).",
            "The ranks never met: [c10d] The client socket has failed to connect to",
        ),
        (
            "[2059991.49] NVRM: Xid (PCI:0000:9b:00): 79, pid=1285, GPU has fallen off the bus.",
            "The GPU, its memory or its link failed: NVRM: Xid (PCI:0000:9b:00): 79, pid=1285",
        ),
        ("Killed", "The system killed the process because memory ran out (step 4)."),
    ],
)
def test_behind_the_name_of_a_cause_stands_the_line_that_tells_it(
    tmp_path: Path, line: str, quoted: str
) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 4 loss 0.5\n{line}\n")
    headline = explain_logs([log]).headline
    assert headline.replace(" (step 4):", ":").startswith(quoted), headline


def test_whom_the_kernel_killed_and_what_it_held(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "step 4 loss 0.5\n[ 9.1] python invoked oom-killer: gfp_mask=0x24280ca, order=0\n"
        "[ 9.2] Memory cgroup out of memory: Killed process 4711 (python) total-vm:9431456kB, "
        "anon-rss:8192000kB, file-rss:63488kB\nKilled\n"
    )
    said = "Memory ran out and python (pid 4711), which held 7.8 GiB, was killed (step 4)."
    assert explain_logs([log]).headline == said


def test_an_abort_of_threads_behind_an_exception_is_its_echo(tmp_path: Path) -> None:
    raised = (
        'Traceback (most recent call last):\n  File "train.py", line 8, in load\n'
        "ValueError: too many values to unpack (expected 2)\n"
    )
    abort = "terminate called without an active exception\nAborted (core dumped)\n"
    log = tmp_path / "train.log"
    log.write_text(f"{raised}{abort}")
    diagnosis = explain_logs([log])
    assert diagnosis.headline.startswith("ValueError: too many values to unpack")
    assert diagnosis.outcome.signal == "SIGABRT"
    log.write_text(f"{raised}step 4 loss 0.5\nstep 5 loss 0.4\n{abort}")  # that one was survived
    assert explain_logs([log]).causes[0].id == "native-segfault"


FAULTHANDLER = (
    "Fatal Python error: Segmentation fault\n\n"
    "Thread 0x00007f2c (most recent call first):\n"
    '  File "/home/me/prefetch.py", line 31 in run\n\n'
    "Current thread 0x00007f2b (most recent call first):\n"
    '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
    '  File "/home/me/train.py", line 6 in update\n'
    '  File "/home/me/train.py", line 20 in <module>\n'
)


def test_the_place_of_a_crash_is_that_of_the_thread_that_crashed(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 3 loss 0.5\n{FAULTHANDLER}")
    assert explain_logs([log]).headline == "SIGSEGV in train.py:6 update() (step 3)."


@pytest.mark.parametrize(
    "dump",
    [
        "Timeout (0:00:30)!\nThread 0x00007f2d (most recent call first):\n"
        '  File "/home/me/prefetch.py", line 31 in run\n\n'
        "Thread 0x00007f2c (most recent call first):\n"
        '  File "/usr/lib/python3.11/queue.py", line 171 in get\n'
        '  File "/home/me/data.py", line 88 in next_batch\n',
        'Thread 4711 (idle): "MainThread"\n    wait (threading.py:320)\n    get (queue.py:171)\n'
        "    next_batch (data.py:88)\n    <module> (train.py:40)\n"
        'Thread 4712 (idle): "Thread-1"\n    run (prefetch.py:31)\n',
    ],
)
def test_the_place_of_a_hang_is_that_of_the_main_thread(tmp_path: Path, dump: str) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 3 loss 0.5\n{dump}")
    diagnosis = explain_logs([log])
    assert " in data.py:88 next_batch() (step 3)" in diagnosis.headline
    assert diagnosis.outcome is not None and diagnosis.outcome.kind == "unknown"  # nothing raised


def test_a_traceback_without_its_last_line_has_a_place_too(tmp_path: Path) -> None:
    """As it is pasted, or as another process writes between its lines."""
    log = tmp_path / "train.log"
    log.write_text(
        "OSError: [Errno 28] No space left on device\n"
        'Traceback (most recent call last):\n  File "D:\\work\\train.py", line 78, in save\n'
        '  File "D:\\envs\\t\\lib\\zipfile.py", line 1281, in close\n'
    )
    assert explain_logs([log]).headline.endswith("in train.py:78 save().")


def test_the_place_of_a_crash_is_not_that_of_who_heard_of_it(tmp_path: Path) -> None:
    echo = (
        'Traceback (most recent call last):\n  File "/home/me/driver.py", line 7, in <module>\n'
        "    ray.get(Server.remote().update.remote())\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    )
    of_worker = "".join(
        f"(Server pid=28302) {line}\n"
        for line in FAULTHANDLER.replace("Current thread 0x00007f2b", "Stack").splitlines()
    )
    log = tmp_path / "driver.log"
    log.write_text(f"{echo}{of_worker}")
    assert explain_logs([log]).headline == "SIGSEGV in train.py:6 update() (pid 28302)."


def test_of_several_logs_the_place_is_that_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    echo = 'Traceback (most recent call last):\n  File "t.py", line 3, in echo\nRuntimeError: '
    echo += "[gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:9\n"
    real = 'Traceback (most recent call last):\n  File "t.py", line 9, in load\nKeyError: 4\n'
    paths = []
    for rank, text in enumerate((echo, real, echo)):
        paths.append(tmp_path / f"rank{rank}.log")
        paths[-1].write_text(text)
    facts = explain_logs(paths).facts
    assert (facts["failed_first"], facts["where"]["line"]) == ("rank 1", 9)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("[/src/gloo/transport/tcp/pair.cc:534] Connection closed", "Connection closed"),
        (
            "NCCL error in: /src/c10d/ProcessGroupNCCL.cpp:3699, unhandled cuda error",
            "NCCL error: unhandled cuda error",
        ),
        (
            'ok INTERNAL ASSERT FAILED at "../src/Map.cpp":40, please report a bug to PyTorch. no',
            "ok INTERNAL ASSERT FAILED: no",
        ),
        ("nothing at: all, in: order", "nothing at: all, in: order"),
    ],
)
def test_a_place_in_the_sources_of_a_library_does_not_stand_before_what_is_wrong(
    tmp_path: Path, message: str, told: str
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        f'  File "train.py", line 3, in step\n    reduce()\nRuntimeError: {message}\n'
    )
    assert explain_logs([log]).headline == f"RuntimeError: {told} in train.py:3 step()."


@pytest.mark.parametrize(
    ("log", "headline"),
    [
        (
            "RuntimeError: INTERNAL: From /job:worker/task:0:\n2 root error(s) found.\n"
            "  (0) INTERNAL: the graph did not compile.\n\t [[{{node X}}]]\n",
            "RuntimeError: INTERNAL: the graph did not compile.",
        ),
        (
            "ValueError: Exception encountered when calling Sequential.call().\n\n"
            'Input 0 of layer "dense" is incompatible with the layer: expected axis -1 to be 4\n',
            'ValueError: Input 0 of layer "dense" is incompatible with the layer:'
            " expected axis -1 to be 4.",
        ),
        (
            "RuntimeError: [metal::Device] Unable to load function\n  gather_mm_bf16\n",
            "RuntimeError: [metal::Device] Unable to load function gather_mm_bf16.",
        ),
        (
            "warming up\nsignal (11): Segmentation fault\n"
            "in expression starting at /home/me/main.jl:53\nunknown function (ip: 0x7f0f43b0da5f)\n"
            "MPI_Bcast at /usr/lib/libmpi.so (unknown line)\n",
            "SIGSEGV in main.jl:53, inside libmpi.so.",
        ),
        (
            "worker-1: ExecutorLostFailure (executor 7 exited caused by one of the running tasks of"
            " the stage) Reason: Container killed by YARN for exceeding memory limits. 5.0 GB of"
            " 5 GB physical memory used.\n",
            "The system killed the process because memory ran out: Container killed by YARN for"
            " exceeding memory limits. 5.0 GB of 5 GB physical memory used.",
        ),
        (
            "[2026-05-04 14:54:04] Error: there should be as many vocabularies as training files\n"
            "[2026-05-04 14:54:04] Error: Aborted from void validate() const in validator.cpp:79\n"
            "./train.sh: line 18: 19325 Aborted                 (core dumped) marian --devices 0\n",
            "Error: there should be as many vocabularies as training files.",
        ),
    ],
)
def test_it_says_what_the_log_says(tmp_path: Path, log: str, headline: str) -> None:
    (tmp_path / "a.log").write_text(log)
    assert explain_logs([tmp_path / "a.log"]).headline == headline
