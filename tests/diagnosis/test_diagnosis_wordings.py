"""Messages in wordings that no cause file lists, and healthy logs that look frightening."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.diagnosis import diagnose
from rerail.evidence import observe_text
from rerail.records import Evidence

WORDINGS = Path(__file__).parent / "wordings.tsv"


def leading(text: str) -> str | None:
    found = observe_text(enumerate(text.split("\n"), 1))
    candidate = diagnose(Evidence(found.outcome, found.observations, found.facts)).leading
    return candidate.cause.id if candidate else None


def wordings() -> list[tuple[str, str]]:
    rows = WORDINGS.read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t", 1) for row in rows if not row.startswith("#")]
    return [(cause, text.replace("\\n", "\n")) for cause, text in pairs]


@pytest.mark.thorough
def test_every_wording_is_understood() -> None:
    wrong = [(cause, leading(text), text) for cause, text in wordings() if leading(text) != cause]
    assert wrong == []


def test_the_wordings_cover_the_catalogue() -> None:
    counts = Counter(cause for cause, _ in wordings())
    assert set(counts) <= set(load_catalogue().causes)
    assert len(counts) >= 50


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "[rank3]: {}",
        "(RayTrainWorker pid=4711, ip=10.0.0.2) {}",
        "2026-02-18T10:28:25.497Z stderr F {}",
        "[1,3]<stderr>:{}",
        "\x1b[31m{}\x1b[0m",
        " 19%|##   | 95/500 [00:00<00:00, 469.65it/s, loss=0.3]\r{}",
    ],
)
def test_prefixes_do_not_hide_the_message(around: str) -> None:
    for message, cause in [
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "gpu-oom"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("RuntimeError: Address already in use", "port-in-use"),
    ]:
        assert leading(around.format(message)) == cause


@pytest.mark.parametrize(
    "text",
    [
        # A driver that is missing, and training on the CPU.
        "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n"
        "Epoch 1/2\n1875/1875 [=====] - 3s 1ms/step - loss: 0.2912\n"
        "Epoch 2/2\n1875/1875 [=====] - 3s 1ms/step - loss: 0.1412",
        # Loss scaling at work.
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296\n"
        "step=10, skipped=2, lr=[1e-05]\nstep=20, skipped=2, lr=[1e-05]\nexits successfully.",
        # A sample that could not be read and was skipped.
        'Traceback (most recent call last):\n  File "data.py", line 30, in load\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'a.jpg'\nskipping sample 17\n"
        "epoch 1 | loss 0.77\nepoch 2 | loss 0.61\nFinished training. Total time 00:12:11",
        # A repaired image, in a log whose bars all end with the same count.
        "train: WARNING /data/1.jpg: corrupt JPEG restored and saved\n"
        "  1/3  2.31G  1.104: 100%|####| 148/148 [00:30<00:00,  4.9it/s]\n"
        "  2/3  2.31G  0.904: 100%|####| 148/148 [00:31<00:00,  4.8it/s]\n"
        "3 epochs completed in 0.031 hours.",
        # Words that mean something else.
        "killed 2 zombie envs, restarting them\nSegmentation: mIoU 0.71\nError rate: 0.031\n"
        "iteration 400: loss 1.6, perplexity inf\niteration 500: loss 1.5, perplexity 4.7",
        # Threads and forks that went well.
        "huggingface/tokenizers: The current process just got forked, after parallelism has "
        "already been used.\nEpoch 1/2: 100%|##| 50/50 [00:10<00:00, 4.9it/s, loss=0.5]\n"
        "Epoch 2/2: 100%|##| 50/50 [00:10<00:00, 4.9it/s, loss=0.4]",
        # A network that came back, said behind the bar that goes on.
        "26/99 0.0703: 9%|9 | 162/1860 [00:39<06:42, 4.2it/s]wandb: Network error resolved after "
        "0:01:10, resuming normal operation.",
        # A rank that answered at the second call.
        "[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\n"
        "[LightGBM] [Info] Connected to rank 1",
        # Retried requests.
        "wandb: Network error (ConnectTimeout), entering retry loop.\nEpoch 0: loss 0.93\n"
        "Epoch 1: loss 0.83\nwandb: Waiting for W&B process to finish... (success).",
        "I0124 13:07:20.768469 14 xla_bridge.py:660] Unable to initialize backend 'tpu': INTERNAL:"
        " Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file",
        "image.py:13: UserWarning: Failed to load image Python extension: no such module"
        " as image.pyd. If it is not needed, you can ignore this warning.\n  warn(\n2.1.0",
        "999:\tlearn: 0.2\ttotal: 1s\tremaining: 0us\nException ignored in: '_x._Y.__dealloc__'\n"
        "TypeError: 'NoneType' object is not callable",
        "HTTP Error 429 thrown while requesting HEAD https://huggingface.co/x/config.json\n"
        "Retrying in 1s [Retry 1/5].",
    ],
)
def test_a_frightening_but_healthy_log_has_no_cause(text: str) -> None:
    assert leading(text) is None


# Words that any library may use: an answer, and never one that promises to be right.
GENERAL = [
    ("bad-config", "ValueError: `frobnicate_every` must be one of 'never' or 'always'"),
    ("cuda-unavailable", "RuntimeError: no usable NPU could be opened for job 7, gpu not ready"),
    ("collective-mismatch", "RuntimeError: disagreement between rank3 and rank5: the plan differs"),
    ("loss-not-finite", "ArithmeticError: the moving average became non-finite"),
    ("thread-limit", "OSError: pool could not start another thread"),
    ("cuda-driver-mismatch", "RuntimeError: this build requires a newer driver, please upgrade"),
    ("extension-build-failed", "[ERROR] nvcc returned an error while the kernel was built"),
]


@pytest.mark.parametrize(("cause", "text"), GENERAL)
def test_general_words_get_an_answer_that_promises_little(cause: str, text: str) -> None:
    found = observe_text(enumerate(text.split("\n"), 1))
    leading = diagnose(Evidence(found.outcome, found.observations, found.facts)).leading
    assert leading is not None
    assert (leading.cause.id, leading.probability < 0.85) == (cause, True)


@pytest.mark.parametrize(
    "text",
    [
        "10:00:01-2 INFO Validating /data/out existence and writability... SUCCESS",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 4096.0",
        "plotting is left out:\nNo module named 'prettyplots'",
        "slurmstepd: error: couldn't chdir to `/scratch/x': No such file or directory:"
        " going to /tmp instead\nusing 2 devices",
        "12:00:00 - INFO - c10d - Waiting in store based barrier for rank: 3\n"
        "12:00:01 - INFO - c10d - Rank 3: Completed store-based barrier with 6 nodes.",
        "Checkpoint not found at /ckpt/latest, starting from scratch\nstep 0: train loss 10.9",
        "dataloader.py:557: UserWarning: This DataLoader will create 8 worker processes. Excessive"
        " worker creation might get DataLoader running slow or even freeze.\nEpoch 0 loss=2.1",
        "tqdm/auto.py:21: TqdmWarning: IProgress not found. Please update jupyter and ipywidgets.",
        "cudf 24.4 requires pyarrow<15, but you have pyarrow 16.1 which is incompatible.",
        "Repo card metadata block was not found. Setting CardData to empty.",
        "CPU times: user 3min 20s, sys: 4 s, total: 3min 24s\nWall time: 3min 32s",
        "If you get `CUDA error: invalid device function` errors, the above might be the cause.",
        " 9%|9 | 100/1000 [00:10<01:30]\nRetrying (Retry(total=4)) after connection broken by"
        " 'ReadTimeoutError': /api/x\n 10%|# | 110/1000 [00:11<01:29]",
        "W tensorflow/stream_executor/dso_loader.cc:64] Could not load dynamic library"
        " 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file",
    ],
)
def test_what_informs_accuses_nothing(text: str) -> None:
    assert leading(text) is None


def test_a_loss_scale_below_one_is_a_loss_that_is_not_finite() -> None:
    text = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.25"
    assert leading(text) == "loss-not-finite"


@pytest.mark.parametrize(("last", "cause"), [(2, "loss-not-finite"), (256, None)])
def test_steps_that_all_overflow_are_told_from_a_scaler_at_work(
    last: int, cause: str | None
) -> None:
    scales = [last * 2**n for n in range(6, -1, -1)]
    said = (
        "{n}/99 [00:19<37:53, 2.14s/it] OVERFLOW! Rank 0 Skipping step."
        " Attempted loss scale: {b}, reducing to {a}.0"
    )
    lines = [said.format(n=n, a=scale, b=2 * scale) for n, scale in enumerate(scales)]
    assert leading("\n".join(lines)) == cause


def test_a_thread_that_was_cut_off_at_exit_is_told_as_that() -> None:
    text = "step 10 loss 0.2\ntraining finished\nterminate called without an active exception"
    found = observe_text(enumerate([*text.split("\n"), "Aborted (core dumped)"], 1))
    diagnosis = diagnose(Evidence(found.outcome, found.observations, found.facts))
    assert diagnosis.leading is not None
    assert diagnosis.leading.cause.id == "native-segfault"
    assert "cut off at exit" in diagnosis.headline
