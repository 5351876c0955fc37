"""Evidence becomes probabilities: echoes below causes, survived trouble below nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.catalogue import load_catalogue
from rerail.diagnosis import Diagnosis, diagnose
from rerail.diagnosis.calibration import calibrated
from rerail.diagnosis.conditions import meets
from rerail.diagnosis.weigh import weigh
from rerail.evidence import observe_text
from rerail.records import Evidence, Observation, Outcome

DIED = Outcome("signal", "killed", signal="SIGKILL")


def of_text(text: str) -> Diagnosis:
    found = observe_text(enumerate(text.split("\n"), 1))
    return diagnose(Evidence(found.outcome, found.observations, found.facts))


def named(text: str) -> list[str]:
    return [candidate.cause.id for candidate in of_text(text).candidates]


def of_run(*observations: Observation, outcome: Outcome = DIED) -> Diagnosis:
    return diagnose(Evidence(outcome, list(observations), origin="run"))


OWN_WORDS = """step 20 loss 0.31
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/x/train.py", line 13, in <module>
[rank1]:     raise ValueError("bad sample 17")
[rank1]: ValueError: bad sample 17
"""
ECHO = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/x/train.py", line 5, in <module>
[rank0]:     loss.backward()
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:193
"""
LAUNCHER = """W1116 elastic/multiprocessing/api.py:1028] Sending process 20 closing signal SIGTERM
E1116 elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 21)
Traceback (most recent call last):
  File "/x/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 20)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 21)
"""


@pytest.mark.parametrize(
    "text",
    [
        OWN_WORDS + ECHO + LAUNCHER,
        OWN_WORDS + LAUNCHER,
        (OWN_WORDS + ECHO + LAUNCHER).replace("[rank1]: ", "").replace("[rank0]: ", ""),
    ],
)
def test_a_rank_that_says_why_is_no_echo_whatever_the_others_and_the_launcher_say(text: str):
    found = of_text(text)
    assert [candidate.cause.id for candidate in found.candidates][:1] == ["python-exception"]
    assert found.facts["exception"] == "ValueError"
    assert found.facts["raised_at"].startswith("/home/x/train.py:13 ")
    assert named(ECHO + LAUNCHER)[0] == "peer-died"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # The first failure beats its echo, wherever it stands.
        ("[rank1]: IndexError: index out of range in self\n"
         "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer",
         "index-out-of-range"),
        ("[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer\n"
         "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
         "gpu-oom"),
        ("/pytorch/Indexing.cu:662: block: [633,0,0], thread: [64,0,0] Assertion `a < b` failed.\n"
         "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED", "cuda-device-assert"),
        # A worker killed for memory is host-oom; a bus error is shared memory.
        ("Out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:9kB\n"
         "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "host-oom"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.",
         "shm-exhausted"),
        # Decided borderline cases.
        ("RecursionError: maximum recursion depth exceeded", "python-exception"),
        ("OpenBLAS blas_thread_init: pthread_create failed: Operation not permitted",
         "thread-limit"),
        ("symbol lookup error: libmkl_intel_thread.so: undefined symbol: omp_get_num_procs",
         "threading-layer-conflict"),
        ("OSError: Can't read data (wrong B-tree signature)", "fork-after-threads"),
        ("Error while creating shared memory segment /dev/shm/nccl-a (size 9)", "shm-exhausted"),
        ("slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT x DUE TO TIME LIMIT ***\n"
         "SignalException: Process 4 got signal: 15", "scheduler-stopped"),
        ("./all.sh: line 9: 41 Segmentation fault      (core dumped) python train.py --cell 2\n"
         "mv: cannot stat 'weights/*': No such file or directory\ncell 3\n", "native-segfault"),
    ],
)  # fmt: skip
def test_the_cause_beats_its_echo(text: str, cause: str) -> None:
    assert named(text)[0] == cause


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1 loss 0.5\nepoch 2 loss 0.4\nTraining finished",
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        "RuntimeError: CUDA error: out of memory\nfalling back to a smaller batch\n"
        "step 1 loss 0.5\nstep 2 loss 0.4",
        "best_val=inf\nepoch 1 val_loss 0.4\nepoch 2 val_loss 0.3",
        "Killed by the word: nothing happened\nstep 1 loss 2\nstep 2 loss 1",
        "step 1 loss nan, skipped\nstep 2 loss 0.4\nstep 3 loss 0.3\nstep 4 loss 0.3",
        "WARNING: retry in 2 s: Connection reset by peer\nstep 1 loss 1\nstep 2 loss 0.5\nall done",
        "nothing at all",
    ],
)
def test_a_healthy_log_has_no_cause(text: str) -> None:
    assert named(text) == []


def test_the_probabilities_leave_room_for_something_else() -> None:
    diagnosis = of_text("RuntimeError: CUDA error: unspecified launch failure")
    probabilities = [candidate.probability for candidate in diagnosis.candidates]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) < 1
    assert diagnosis.candidates[0].probability < 0.9, "two causes share this message"


def test_every_reason_can_be_seen_again() -> None:
    document = of_text("step 9 loss 1\nOMP: Error #15: Initializing libomp.so").to_json()
    assert document["causes"][0]["for"][0] == {
        "text": "OMP: Error #15: Initializing libomp.so", "source": "output:2"
    }  # fmt: skip
    assert document["facts"]["last_step"] == 9
    assert document["schema"] == 1


def test_recorded_evidence_decides_where_the_log_is_silent() -> None:
    death = Observation(
        "death", "killed by SIGKILL", "exit:1", {"signal": "SIGKILL", "role": "main"}
    )
    kill = Observation("oom-kill", "the kernel killed it", "kernel:1", {"limit_bytes": 7})
    alone = of_run(death).leading
    both = of_run(death, kill).leading
    assert both is not None and both.cause.id == "host-oom" and both.probability > 0.9
    assert alone is None or alone.probability < both.probability


def test_circumstances_explain_nothing_of_a_run_that_ended_well() -> None:
    runtimes = Observation(
        "openmp-runtimes", "two", "maps:7", {"aborting_pair": True, "count": 2, "pid": 7}
    )
    well = Evidence(Outcome("ok", "ended well", exit_code=0), [runtimes], {})
    badly = Evidence(Outcome("signal", "died", signal="SIGABRT"), [runtimes], {})

    assert diagnose(well).candidates == ()
    assert diagnose(badly).candidates[0].cause.id == "openmp-duplicate-runtime"


def test_signals_that_rerail_sent_are_no_evidence() -> None:
    death = Observation("death", "ended", "exit:1", {"signal": "SIGTERM", "role": "main"})
    stall = Observation(
        "stall", "stuck", "stack:2:2",
        {"role": "loader-worker", "forked_after_threads": True, "functions": [], "libraries": []},
    )  # fmt: skip
    hung = of_run(death, stall, outcome=Outcome("hang", "no progress"))
    assert hung.candidates[0].cause.id == "fork-after-threads"
    assert of_run(death, outcome=Outcome("hang", "no progress")).candidates == ()


def test_what_a_later_rank_says_counts_half() -> None:
    first = Observation("failed-first", "rank 1 failed first", "output:1",
                        {"who": "rank 1", "others": ["rank 0"]})  # fmt: skip
    line = {"cause": "disk-full", "signature": "no-space", "stream": "rank 0"}
    evidence = Evidence(DIED, [first, Observation("line", "x", "output:2", line)])
    halved = weigh(evidence, load_catalogue())["disk-full"].own
    whole = weigh(Evidence(DIED, evidence.observations[1:]), load_catalogue())["disk-full"].own
    assert halved == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("data", "when", "is_met"),
    [
        ({"signal": "SIGKILL"}, {"signal": "SIGKILL"}, True),
        ({"signal": "SIGKILL"}, {"signal": ["SIGBUS", "SIGKILL"]}, True),
        ({"fraction": 0.95}, {"fraction": ">= 0.9"}, True),
        ({"fraction": 0.5}, {"fraction": ">= 0.9"}, False),
        ({}, {"fraction": ">= 0.9"}, False),
        ({}, {"fraction": "absent"}, True),
        ({"frames": ["a", "b:run"]}, {"frames": "~ b:"}, True),
        ({"type": "KeyError"}, {"type": "!~ ^Value"}, True),
        ({}, {"type": "!= main"}, True),
        ({"x": "many"}, {"x": "> 3"}, False),
    ],
)
def test_conditions(data: dict[str, object], when: dict[str, object], is_met: bool) -> None:
    assert meets(data, when) is is_met


@given(st.floats(0, 1), st.floats(0, 20), st.floats(0, 1), st.floats(0, 20))
def test_more_evidence_never_makes_an_answer_less_sure(
    raw: float, own: float, other_raw: float, other_own: float
) -> None:
    low = calibrated(min(raw, other_raw), min(own, other_own))
    high = calibrated(max(raw, other_raw), max(own, other_own))
    assert 0 < low <= high < 1


@given(st.lists(st.sampled_from(
    ["Killed", "KeyboardInterrupt", "CUDA out of memory", "loss nan", "step 3 loss 0.1",
     "MemoryError", "Connection closed by peer", "[rank1]: ValueError: x",
     "Segmentation fault (core dumped)",
     "RuntimeError: Address already in use", "all done", ""]), max_size=12))  # fmt: skip
def test_any_mixture_gives_a_sound_answer(parts: list[str]) -> None:
    diagnosis = of_text("\n".join(parts))
    probabilities = [candidate.probability for candidate in diagnosis.candidates]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) <= 1 + 1e-9
    assert all(candidate.speaks_for for candidate in diagnosis.candidates)


_RAISED = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
{}"""


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        # A message that means one thing.
        (_RAISED.format("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"), 0.9, 1.0),
        # One that is used of other things too.
        (_RAISED.format("ValueError: lr must be positive"), 0.5, 0.85),
        # Definite words, but beside the exception that ended the run.
        ("std::bad_alloc\n" + _RAISED.format("mylib.Unlucky: no idea"), 0.5, 0.8),
        # Nothing is known but that something was raised.
        (_RAISED.format("mylib.Unlucky: no idea"), 0.2, 0.6),
    ],
)
def test_how_sure_an_answer_is_depends_on_what_kind_of_evidence_leads(
    text: str, least: float, most: float
) -> None:
    leading = of_text(text).leading
    assert leading is not None
    assert least <= leading.probability < most
