"""How each death of deaths.toml is brought about, with a real kernel and real limits.

In: a death and an empty folder. Out: the recorded run of it. A stage that this machine does not
allow (a cgroup, a small disk) skips the test.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_deaths import LAUNCHERS, Death
from foreign_runs import (
    BIN,
    HANG_GUARD_SECONDS,
    PROGRAMS,
    Run,
    environment,
    recorded,
    run,
    write_notebook,
    write_rows,
)
from memory_cgroup import small_memory_group
from run_driver import Terminal, wait_until

from rerail.store import Store

MEMORY_BYTES = 1 << 30


def words_of(launcher: str, program: str, arguments: str, folder: Path) -> list[str]:
    """The command as a user types it, with the programs of .venv-foreign."""
    if launcher == "papermill":
        notebook = str(write_notebook(folder / "notebook.ipynb"))
        words = ["papermill", "--no-progress-bar", "--log-output", "-k", "python3"]
        words += [notebook, "out.ipynb"]
    else:
        words = [*LAUNCHERS[launcher], str(PROGRAMS / program)]
    if program == "lightning_train.py":
        write_rows(folder / "rows.npz")
    return [str(BIN / words[0]), *words[1:], *shlex.split(arguments)]


def command_of(death: Death, folder: Path) -> list[str]:
    return words_of(death.launcher, death.program, death.arguments, folder)


def plain(death: Death, folder: Path) -> Run:
    return run(folder, recorded(folder, *command_of(death, folder), options=death.options))


def in_shell(script: str, death: Death, folder: Path) -> Run:
    """Something is set in a shell that then becomes the training."""
    words = ["sh", "-c", f'{script}; exec "$@"', "sh", *command_of(death, folder)]
    return run(folder, recorded(folder, *words))


def few_files(death: Death, folder: Path) -> Run:
    return in_shell("ulimit -n 64", death, folder)


def small_memory(death: Death, folder: Path) -> Run:
    with small_memory_group(death.name, MEMORY_BYTES) as group:
        return in_shell(f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}", death, folder)


def truncated_data(death: Death, folder: Path) -> Run:
    data = write_rows(folder / "whole.npz").read_bytes()
    (folder / "cut.npz").write_bytes(data[: len(data) // 2])
    return plain(death, folder)


def _trained(program: str, arguments: str, folder: Path) -> None:
    made = run(folder, words_of("python", program, arguments, folder))
    assert made.status == 0, made.output[-3000:]


def truncated_checkpoint(death: Death, folder: Path) -> Run:
    """A training that ends well, whose only checkpoint then loses its second half."""
    _trained(death.program, "--out ck --epochs 1", folder)
    (checkpoint,) = (folder / "ck").iterdir()
    weights = checkpoint.rename(folder / "ck" / "checkpoint-1") / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    return plain(death, folder)


def wide_checkpoint(death: Death, folder: Path) -> Run:
    _trained(death.program, "--epochs 1 --save wide.ckpt", folder)
    return plain(death, folder)


def ends_by_timeout(death: Death, folder: Path) -> Run:
    return run(folder, recorded(folder, "timeout", "20", *command_of(death, folder)))


def sigkill(death: Death, folder: Path) -> Run:
    """Somebody else ends it with SIGKILL once it has saved its first checkpoint."""
    words = ["sh", "-c", 'echo $$ > pid; exec "$@"', "sh", *command_of(death, folder)]
    log = folder / "printed.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            recorded(folder, *words),
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            saved = "a checkpoint"
            wait_until(lambda: [*folder.glob("out/checkpoint-*")], saved, HANG_GUARD_SECONDS)
            os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
            status = process.wait(HANG_GUARD_SECONDS)
        finally:
            process.kill()
    return Run(status, log.read_text(errors="replace"), folder / "home")


def ctrl_c(death: Death, folder: Path) -> Run:
    """A person waits until nothing moves any more, and then presses Ctrl-C."""
    new = {k: v for k, v in environment(folder).items() if os.environ.get(k) != v}
    words = recorded(folder, *command_of(death, folder))
    inside = ["env", "-C", str(folder), *(f"{name}={value}" for name, value in new.items())]
    with Terminal([*inside, *words], columns=200) as terminal:
        terminal.expect("taking the lock again", HANG_GUARD_SECONDS)
        looked = "a look at the silence"
        wait_until(lambda: _was_looked_at(folder / "home"), looked, HANG_GUARD_SECONDS)
        terminal.type("\x03")
        status = terminal.wait()
        return Run(status, terminal.seen.decode(errors="replace"), folder / "home")


def _was_looked_at(home: Path) -> bool:
    kinds = [event.kind for event in Store(home).resolve("last").events()]
    return kinds[-1] in ("quiet", "busy", "stall")


STAGES: dict[str, Callable[[Death, Path], Run]] = {
    "plain": plain,
    "few-files": few_files,
    "small-memory": small_memory,
    "truncated-data": truncated_data,
    "truncated-checkpoint": truncated_checkpoint,
    "wide-checkpoint": wide_checkpoint,
    "stall": plain,
    "timeout": ends_by_timeout,
    "sigkill": sigkill,
    "ctrl-c": ctrl_c,
}


def staged(death: Death, folder: Path, request: pytest.FixtureRequest) -> Run:
    if death.how == "small-disk":
        disk = request.getfixturevalue("mount_tmpfs")("size=200k")
        arguments = death.arguments.format(disk=disk)
        words = words_of(death.launcher, death.program, arguments, folder)
        return run(folder, recorded(folder, *words))
    if death.how == "small-shm":
        unshare = request.getfixturevalue("unshare")
        script = 'mount -t tmpfs -o size=2m tmpfs /dev/shm && exec "$@"'
        around = [*unshare, "--mount", "sh", "-c", script, "sh"]
        return run(folder, recorded(folder, *around, *command_of(death, folder)))
    return STAGES[death.how](death, folder)
