"""What else is done once a run is over: the summary of the job, the metrics, those who are told.

In: a recording whose diagnosis is on file. Out: notices for standard error, about what did not
work. Promises: nothing raises, and each part has a bound in time; how rerail ends is settled.
Whoever presses Ctrl-C has seen enough: that wait ends and no other begins, while what was to be
done is done all the same, by processes of its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rerail.cli._record_words import is_readable
from rerail.platform.own_process import lose_patience
from rerail.recorder import Recording
from rerail.store import RunFolder, Store

if TYPE_CHECKING:
    from rerail.jobs import Sharing
    from rerail.notify import Notifier
    from rerail.trackers import Closing

SUMMARY_SECONDS = 5.0


def write_elsewhere(
    recording: Recording, metrics_file: Path | None, *, explains: bool
) -> list[str]:
    """Into the files that the user, or GitHub Actions, named."""
    if not is_readable(recording):
        return []
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if explains else None
    notices = _append_summary(recording, Path(summary)) if summary else []
    if metrics_file is not None:
        notices += _write_metrics(recording, metrics_file)
    return notices


def has_died(recording: Recording) -> bool:
    """Whether the exit code or the diagnosis on record says that it did not end well."""
    if recording.deserves_explanation:
        return True
    from rerail.diagnosis import ending_on_record

    return is_readable(recording) and ending_on_record(RunFolder(recording.folder)) != "ok"


def _append_summary(recording: Recording, path: Path) -> list[str]:
    from rerail.cli._explaining import AnswerOverdue, at_most

    try:
        from rerail.diagnosis import answer_on_record
        from rerail.platform.user_files import append_to_user_file
        from rerail.report import step_summary

        with at_most(SUMMARY_SECONDS):
            folder = RunFolder(recording.folder)
            diagnosis = answer_on_record(folder) if has_died(recording) else None
            text = step_summary(folder, diagnosis)
            append_to_user_file(path, b"\n" + text.encode("utf-8", "replace"))
    except (Exception, AnswerOverdue, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt):
            lose_patience()
        return [f"the summary of this job was not written ({_in_short(error)})"]
    return []


def _write_metrics(recording: Recording, path: Path) -> list[str]:
    try:
        from rerail.recorder import write_metrics
        from rerail.report import last_metrics

        folder = RunFolder(recording.folder)
        problem = write_metrics(path, last_metrics(folder, died=has_died(recording)))
    except Exception as error:
        return [f"the metrics were not written ({_in_short(error)})"]
    return [f"the metrics were not written to {problem}"] if problem else []


def close_in_trackers(recording: Recording, store: Store, *, wanted: bool) -> Closing | None:
    """Begin to; `Closing.notices` waits for it."""
    if not wanted or not recording.deserves_explanation or not is_readable(recording):
        return None
    try:
        from rerail.trackers import close_tracked_runs

        return close_tracked_runs(recording.folder, store.home, os.environ)
    except Exception:
        return None


def outcome_in_trackers(closing: Closing | None) -> list[str]:
    if closing is None:
        return []
    try:
        return closing.notices()
    except KeyboardInterrupt:
        lose_patience()
        return closing.notices()  # at once: that it goes on, and where it will be told
    except Exception:
        return []


def notify(
    notifier: Notifier | None, recording: Recording, store: Store, remark: str = ""
) -> list[str]:
    """Tell those who are not here. Whoever pressed Ctrl-C at this terminal knows already."""
    was_interrupted = recording.signal_number == signal.SIGINT or recording.exit_code == 130
    if notifier is None or (was_interrupted and sys.stderr.isatty()):
        return []
    try:
        return notifier.run_ended(
            recording.folder,
            store.home,
            recording.outcome.summary,
            is_death=has_died(recording),
            remark=remark,
        )
    except KeyboardInterrupt:  # it goes on by itself
        lose_patience()
        return []
    except Exception as error:
        return [f"nobody was notified ({_in_short(error)})"]


def finish_sharing(sharing: Sharing | None, recording: Recording, *, is_quiet: bool) -> list[str]:
    """Let the others have the end of this run; where to ask about all of them."""
    if sharing is None:
        return []
    try:
        said = sharing.finish()
        if has_died(recording):
            said.append(f"all nodes together: rerail explain {shlex.quote(sharing.shown)}")
    except KeyboardInterrupt:  # it goes on by itself
        return []
    except Exception as error:
        said = [f"the job may lack this run ({_in_short(error)})"]
    return [] if is_quiet else said


def _in_short(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
