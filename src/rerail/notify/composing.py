"""From a run folder to the message about it, masked as a package is.

In: a run folder, or the answer of an experiment, and the secrets of the receivers. Out: a
`Message`. Promises: secrets and personal names are out of every text that comes from the run, by
the table of `rerail.privacy`; the host is named, since that is where to look; a command to type
that had to be masked is replaced by one that can be typed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.api import Run
from rerail.diagnosis import Diagnosis, NextStep
from rerail.errors import RerailError
from rerail.notify import message
from rerail.notify.message import Message
from rerail.privacy import Redactor
from rerail.records import Outcome
from rerail.report import finish_line, last_step_and_loss, learn_diagnosis, masked_diagnosis
from rerail.store import RunFolder, Store


def compose(asked: dict[str, Any], secrets: Iterable[str]) -> Message:
    """`asked`: what the notifier wrote for the sender."""
    if asked["what"] in ("run", "stall", "rank"):
        return _about_run(asked, secrets)
    redactor = _redactor({}, secrets)
    plain = {name: asked.get(name) for name in ("headline", "details", "label", "next")}
    masked = _masked(redactor, plain)
    if masked["next"] != plain["next"]:
        masked["next"] = asked.get("short_next", "")
    return message.of_experiment({**asked, **masked})


def _about_run(asked: dict[str, Any], secrets: Iterable[str]) -> Message:
    folder = RunFolder(Path(asked["folder"]))
    try:
        info = folder.info()
    except RerailError:  # nothing was kept: what the recorder remembers has to do
        return _from_memory(asked, secrets)
    redactor = _redactor(folder.private().secrets, secrets)
    environment = folder.surroundings().get("environment")
    redactor.names.add_environment(environment if isinstance(environment, dict) else {})
    elapsed = info.elapsed_seconds
    about = {
        "id": folder.id,
        "short": folder.id.rpartition("-")[2],
        "host": asked["host"],
        "label": _masked(redactor, info.settings.get("label")),
        "at_unix": time.time(),
        "elapsed_seconds": time.time() - info.started_unix if elapsed is None else elapsed,
    }
    if asked["what"] == "stall":
        return message.of_stall(
            about,
            asked["silent_seconds"],
            _masked(redactor, asked["hung_in"]),
            last_step_and_loss(folder)[0],
            is_last=asked["is_last"],
        )
    if asked["what"] == "rank":
        step, text = last_step_and_loss(folder)[0], _masked(redactor, asked["text"])
        return message.of_rank(about, text, step, is_last=asked["is_last"])
    if asked["event"] == "end":
        finish, step = finish_line(folder.path), last_step_and_loss(folder)[0]
        return message.of_success(about, _masked(redactor, finish), step)
    diagnosis = Run(folder.path, Store(asked["home"])).diagnosis
    learn_diagnosis(redactor, diagnosis)
    redactor.finish_learning()
    masked = masked_diagnosis(diagnosis, redactor)
    if masked.next_step != diagnosis.next_step:
        masked = replace(masked, next_step=None)
    remark = _masked(redactor, asked.get("remark") or "")
    return message.of_death(about, masked, remark)


def _from_memory(asked: dict[str, Any], secrets: Iterable[str]) -> Message:
    redactor = _redactor({}, secrets)
    summary = _masked(redactor, asked.get("summary") or "how it ended is not known")
    about = {
        "id": None,
        "short": "without a record",
        "host": asked["host"],
        "at_unix": time.time(),
    }
    if asked["event"] == "end":
        return message.of_success(about, summary)
    if asked["what"] == "rank":
        return message.of_rank(about, _masked(redactor, asked["text"]), None, is_last=False)
    unread = Diagnosis(
        Outcome("unknown", summary),
        next_step=NextStep("", "rerail runs"),
        headline_on_record=summary,
    )
    return message.of_death(about, unread)


def _redactor(recorded: Any, secrets: Iterable[str]) -> Redactor:
    redactor = Redactor(recorded)
    redactor.learn_environment(os.environ)
    redactor.names.add_environment(dict(os.environ))
    redactor.learn_addresses(secrets)
    return redactor


def _masked(redactor: Redactor, value: Any) -> Any:
    redactor.learn_value(value)
    redactor.finish_learning()
    return redactor.mask_value(value)
