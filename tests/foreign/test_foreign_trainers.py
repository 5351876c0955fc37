"""Trainers of other people under `rerail run`: unharmed while they live, explained when they die.

`make foreign` installs them into an environment of their own; without it these tests are skipped.
Every death leaves what was said of it in out/foreign, from which scripts/write-foreign-table
writes docs/foreign-trainers.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from foreign_deaths import ACCELERATE, DEATHS, PYTHON, TORCHRUN, Death
from foreign_runs import (
    BIN,
    HANG_GUARD_SECONDS,
    PROGRAMS,
    ROOT,
    Run,
    environment,
    line_of,
    need_foreign,
    recorded,
    run,
    write_notebook,
    write_rows,
)
from memory_cgroup import small_memory_group
from run_driver import Terminal, wait_until

pytestmark = pytest.mark.slow
RESULTS = ROOT / "out" / "foreign"

# The launcher, what the record is to say of steps, epoch and loss, and why it does not yet.
HEALTHY = {
    "hf_trainer.py": (PYTHON, {"last_step": 20}),
    "accelerate_train.py": (ACCELERATE, {"last_step": 24}),
    "lightning_train.py": (PYTHON, {"last_step": 16}),
    "sklearn_search.py": (PYTHON, {}),
    "xgboost_train.py": (PYTHON, {"last_step": 20}),
    "lightgbm_train.py": (PYTHON, {"last_step": 20}),
    "catboost_train.py": (PYTHON, {"last_step": 20}),
    "flax_train.py": (PYTHON, {"last_step": 40}),
    "keras_train.py": (PYTHON, {"last_step": 24}),
    "ray_train.py": (PYTHON, {"last_step": 10}),
    "ray_actors.py": (PYTHON, {}),
    "datasets_map.py": (PYTHON, {"last_step": 10}),
    "torch_limits.py": (PYTHON, {"last_step": 60}),
    "ddp_train.py": (TORCHRUN, {"last_step": 30}),
    "notebook.py": ("papermill", {"last_step": 20}),
}


@pytest.fixture(autouse=True)
def installed() -> None:
    need_foreign()


def words_of(launcher: str, program: str, arguments: str, folder: Path) -> list[str]:
    if launcher == "papermill":
        notebook = write_notebook(folder / "notebook.ipynb")
        return [
            "papermill",
            "--no-progress-bar",
            "--log-output",
            "-k",
            "python3",
            str(notebook),
            "out.ipynb",
            *shlex.split(arguments),
        ]
    return [*shlex.split(launcher), str(PROGRAMS / program), *shlex.split(arguments)]


def with_path(words: list[str]) -> list[str]:
    return [str(BIN / words[0]), *words[1:]]


@pytest.mark.parametrize("program", HEALTHY)
def test_a_healthy_training_is_left_alone(program: str, tmp_path: Path) -> None:
    launcher, _ = HEALTHY[program]
    bare, under = tmp_path / "bare", tmp_path / "recorded"
    for folder in (bare, under):
        folder.mkdir()
        write_rows(folder / "rows.npz")
    alone = run(bare, with_path(words_of(launcher, program, "", bare)))
    assert alone.status == 0, alone.output[-3000:]
    with_rerail = run(under, recorded(under, *with_path(words_of(launcher, program, "", under))))

    assert with_rerail.status == 0, with_rerail.output[-3000:]
    assert alone.final_loss is not None
    assert with_rerail.final_loss == alone.final_loss
    assert with_rerail.answer["causes"] == []
    assert with_rerail.answer["outcome"]["kind"] == "ok"
    assert "rerail:" not in with_rerail.output
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"healthy-{program}.json").write_text(
        json.dumps({"facts": with_rerail.answer["facts"], "shown": with_rerail.shown})
    )
    print(program, with_rerail.answer["facts"])


Stage = Callable[[Death, Path], Run]


def plain(death: Death, folder: Path) -> Run:
    words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
    return run(folder, recorded(folder, *words, options=death.options))


def in_shell(script: str) -> Stage:
    """Something is set in a shell that then becomes the training."""

    def stage(death: Death, folder: Path) -> Run:
        words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
        return run(folder, recorded(folder, "sh", "-c", f'{script}; exec "$@"', "sh", *words))

    return stage


def truncated_data(death: Death, folder: Path) -> Run:
    data = write_rows(folder / "rows.npz").read_bytes()
    (folder / "cut.npz").write_bytes(data[: len(data) // 2])
    return plain(death, folder)


def truncated_checkpoint(death: Death, folder: Path) -> Run:
    """A training that ends well, whose only checkpoint then loses its second half."""
    words = words_of(PYTHON, death.program, "--out ck --epochs 1", folder)
    made = run(folder, with_path(words))
    assert made.status == 0, made.output[-3000:]
    (checkpoint,) = (folder / "ck").iterdir()
    checkpoint.rename(folder / "ck" / "checkpoint-1")
    weights = folder / "ck" / "checkpoint-1" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    return plain(death, folder)


def wide_checkpoint(death: Death, folder: Path) -> Run:
    write_rows(folder / "rows.npz")
    made = run(
        folder, with_path(words_of(PYTHON, death.program, "--epochs 1 --save wide.ckpt", folder))
    )
    assert made.status == 0, made.output[-3000:]
    return plain(death, folder)


def notebook(death: Death, folder: Path) -> Run:
    words = with_path(words_of("papermill", "", death.arguments, folder))
    return run(folder, recorded(folder, *words))


def stall(death: Death, folder: Path) -> Run:
    write_rows(folder / "rows.npz")
    return plain(death, folder)


def ends_by_timeout(death: Death, folder: Path) -> Run:
    write_rows(folder / "rows.npz")
    words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
    return run(folder, recorded(folder, "timeout", "20", *words))


def sigkill(death: Death, folder: Path) -> Run:
    """Somebody else ends it with SIGKILL once it has saved its first checkpoint."""
    words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
    shell = ["sh", "-c", 'echo $$ > pid; exec "$@"', "sh", *words]
    log = folder / "printed.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            recorded(folder, *shell),
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(
                lambda: list(folder.glob("out/checkpoint-*")), "a checkpoint", HANG_GUARD_SECONDS
            )
            os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
            status = process.wait(HANG_GUARD_SECONDS)
        finally:
            process.kill()
    return Run(status, log.read_text(errors="replace"), folder / "home")


def ctrl_c(death: Death, folder: Path) -> Run:
    write_rows(folder / "rows.npz")
    words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
    inside = [
        "env",
        "-C",
        str(folder),
        *(f"{k}={v}" for k, v in environment(folder).items() if k not in os.environ),
        *recorded(folder, *words),
    ]
    with Terminal(inside, columns=200) as terminal:
        terminal.expect("taking the lock again", HANG_GUARD_SECONDS)
        terminal.type("\x03")
        status = terminal.wait()
        return Run(status, terminal.seen.decode(errors="replace"), folder / "home")


STAGES: dict[str, Stage] = {
    "plain": plain,
    "few-files": in_shell("ulimit -n 64"),
    "truncated-data": truncated_data,
    "truncated-checkpoint": truncated_checkpoint,
    "wide-checkpoint": wide_checkpoint,
    "notebook": notebook,
    "stall": stall,
    "timeout": ends_by_timeout,
    "sigkill": sigkill,
    "ctrl-c": ctrl_c,
}


def staged(death: Death, folder: Path, request: pytest.FixtureRequest) -> Run:
    if death.program == "lightning_train.py":
        write_rows(folder / "rows.npz")
    if death.how == "small-disk":
        disk = request.getfixturevalue("mount_tmpfs")("size=200k")
        words = with_path(
            words_of(death.launcher, death.program, death.arguments.format(disk=disk), folder)
        )
        return run(folder, recorded(folder, *words))
    if death.how == "small-shm":
        unshare = request.getfixturevalue("unshare")
        script = 'mount -t tmpfs -o size=2m tmpfs /dev/shm && exec "$@"'
        words = with_path(words_of(death.launcher, death.program, death.arguments, folder))
        return run(folder, recorded(folder, *unshare, "--mount", "sh", "-c", script, "sh", *words))
    if death.how == "small-memory":
        with small_memory_group(death.name, 1 << 30) as group:
            return in_shell(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}")(death, folder)
    return STAGES[death.how](death, folder)


def judged(death: Death, answer: dict) -> dict[str, str]:
    """What is wrong with an answer, by the part of it; nothing where all of it is right."""
    wrong = {}
    first = answer["causes"][0] if answer["causes"] else {"id": None, "remedies": []}
    if first["id"] not in death.causes:
        wrong["cause"] = f"{first['id']}, not {' or '.join(death.causes)}"
    if not re.search(death.headline, answer["headline"]):
        wrong["headline"] = f"{answer['headline']!r} has no {death.headline!r}"
    if death.where is not None:
        where = answer["facts"].get("where", {})
        said = (Path(where.get("file", "")).name, where.get("line"))
        right = (death.program, line_of(death.program, death.where))
        if said != right:
            wrong["where"] = f"{said[0]}:{said[1]}, not {right[0]}:{right[1]}"
    remedies = [remedy["id"] for remedy in first["remedies"][:1]]
    if not set(remedies) & set(death.remedies):
        wrong["remedy"] = f"{remedies}, not {' or '.join(death.remedies)}"
    return wrong


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_a_death_is_explained(death: Death, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    done = staged(death, tmp_path, request)
    assert death.status is None or done.status == death.status
    answer = done.answer
    wrong = judged(death, answer)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{death.name}.json").write_text(
        json.dumps(
            {"answer": answer, "wrong": wrong, "status": done.status, "home": str(done.home)}
        )
    )
    print(death.name, "|", answer["headline"], "|", wrong or "right")
    assert not wrong, (wrong, done.output[-1500:])
