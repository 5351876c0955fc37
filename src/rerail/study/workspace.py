"""The folders of a study, and one working folder per cell.

    NAME.study/
      journal.jsonl      what happened (journal)
      lock               held while a study is at work here
      work/CELL/         where the cell runs; kept from one attempt to the next if it can go on
      aside/CELL/N/      what attempt N left, when the next one had to begin anew
      results/CELL/      artifacts, collected (artifacts); `results` in the file says otherwise

Promises: a cell that begins anew begins in an empty folder, so that no file of a dead attempt is
taken for one of the next; nothing is deleted before the cell is done.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rerail.checkpoints import Choice, choose_checkpoint
from rerail.study.model import Cell, Study


def work_folder(study: Study, cell: Cell) -> Path:
    return study.folder / "work" / cell.name


def aside_folder(study: Study, cell: Cell) -> Path:
    return study.folder / "aside" / cell.name


def result_folder(study: Study, cell: Cell) -> Path:
    return study.results / cell.name


def prepare(study: Study, cell: Cell, attempt: int, *, can_resume: bool = True) -> Path | None:
    """Make the working folder ready; the checkpoint in it to go on from, if one is whole.

    `can_resume`: what is in it was made by the same command.
    """
    work = work_folder(study, cell)
    choice = _choose(study, work) if can_resume else Choice(None)
    checkpoint = choice.chosen.path if choice.chosen else None
    if checkpoint is None and _has_anything(work):
        target = _free_name(aside_folder(study, cell), attempt - 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        work.rename(target)
    elif checkpoint is not None:
        # A program that looks for its newest checkpoint itself must not find a torn one.
        for damaged in choice.skipped:
            target = _free_name(aside_folder(study, cell), attempt - 1) / damaged.path
            target.parent.mkdir(parents=True, exist_ok=True)
            (work / damaged.path).rename(target)
    work.mkdir(parents=True, exist_ok=True)
    for name in study.inputs:
        link = work / name
        if link.is_symlink() or link.exists():
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((study.base / name).absolute())
    return checkpoint


def has_checkpoint(study: Study, cell: Cell) -> bool:
    """Whether the next attempt finds a whole checkpoint to go on from."""
    return _choose(study, work_folder(study, cell)).chosen is not None


def tidy(study: Study, cell: Cell) -> None:
    """The cell is done: let go of what its dead attempts left, as `keep` says."""
    if study.keep != "all":
        remove_tree(aside_folder(study, cell))
    if study.keep == "artifacts":
        remove_tree(work_folder(study, cell))
    for folder in (study.folder / "aside", study.folder / "work"):
        try:
            folder.rmdir()
        except OSError:
            pass  # other cells are in it, or it is not there


def disk_bytes(folder: Path) -> int:
    """What a folder takes, links not followed."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(where) / name).lstat().st_size
            except OSError:
                continue
    return total


def remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _choose(study: Study, work: Path) -> Choice:
    if study.resume is None or not work.is_dir():
        return Choice(None)
    return choose_checkpoint(study.resume.checkpoint, work)


def _has_anything(work: Path) -> bool:
    """Whether the command left something there: links to inputs are ours."""
    return any(
        not (Path(where) / name).is_symlink() for where, _, names in os.walk(work) for name in names
    )


def _free_name(parent: Path, number: int) -> Path:
    target = parent / str(number)
    more = 0
    while target.exists():
        more += 1
        target = parent / f"{number}-{more}"
    return target
