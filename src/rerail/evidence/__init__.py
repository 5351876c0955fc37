"""Observations, each with its source, from a run folder or from the text of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.evidence.first.boxes import read_failed_first
    from rerail.evidence.first.model import Actor, ActorStanding, Verdict, Wait
    from rerail.evidence.first.ray import who_failed_first, words_of_ray
    from rerail.evidence.first.rules import Scene
    from rerail.evidence.run.collect import collect_run
    from rerail.evidence.run.crashes import faulting_frame, read_crashes
    from rerail.evidence.run.flight_evidence import with_dumps
    from rerail.evidence.run.libraries import libraries_by_process
    from rerail.evidence.run.limits import limit_at_start
    from rerail.evidence.run.material import RecordedRun, read_material
    from rerail.evidence.run.memory import limit_uses, memory_at_peak
    from rerail.evidence.run.private_texts import learn_records
    from rerail.evidence.run.rank_logs import RankLog, rank_logs
    from rerail.evidence.run.rank_stories import RankStory, rank_stories
    from rerail.evidence.run.ray_driver import OF_RAY, pids_in, workers_in
    from rerail.evidence.run.stalls import read_stalls, telling_stall
    from rerail.evidence.run.trend import trend_of
    from rerail.evidence.run.where import process_name
    from rerail.evidence.text.inputs import Inputs, Log, find_inputs, inputs_of_stream
    from rerail.evidence.text.lines import Line, to_lines
    from rerail.evidence.text.logs import Listener, collect_logs, observe_text
    from rerail.evidence.text.observing import TextEvidence
    from rerail.evidence.text.progress import find_progress
    from rerail.evidence.text.typed_names import no_such_file, url_error

__all__ = [
    "OF_RAY",
    "Actor",
    "ActorStanding",
    "Inputs",
    "Line",
    "Listener",
    "Log",
    "RankLog",
    "RankStory",
    "RecordedRun",
    "Scene",
    "TextEvidence",
    "Verdict",
    "Wait",
    "collect_logs",
    "collect_run",
    "faulting_frame",
    "find_inputs",
    "find_progress",
    "inputs_of_stream",
    "learn_records",
    "libraries_by_process",
    "limit_at_start",
    "limit_uses",
    "memory_at_peak",
    "no_such_file",
    "observe_text",
    "pids_in",
    "process_name",
    "rank_logs",
    "rank_stories",
    "read_crashes",
    "read_failed_first",
    "read_material",
    "read_stalls",
    "telling_stall",
    "to_lines",
    "trend_of",
    "url_error",
    "who_failed_first",
    "with_dumps",
    "words_of_ray",
    "workers_in",
]

__getattr__ = door(
    __name__,
    {
        "OF_RAY": "run.ray_driver",
        "Actor": "first.model",
        "ActorStanding": "first.model",
        "Inputs": "text.inputs",
        "Line": "text.lines",
        "Listener": "text.logs",
        "Log": "text.inputs",
        "RankLog": "run.rank_logs",
        "RankStory": "run.rank_stories",
        "RecordedRun": "run.material",
        "Scene": "first.rules",
        "TextEvidence": "text.observing",
        "Verdict": "first.model",
        "Wait": "first.model",
        "collect_logs": "text.logs",
        "collect_run": "run.collect",
        "faulting_frame": "run.crashes",
        "find_inputs": "text.inputs",
        "find_progress": "text.progress",
        "inputs_of_stream": "text.inputs",
        "learn_records": "run.private_texts",
        "libraries_by_process": "run.libraries",
        "limit_at_start": "run.limits",
        "limit_uses": "run.memory",
        "memory_at_peak": "run.memory",
        "no_such_file": "text.typed_names",
        "observe_text": "text.logs",
        "pids_in": "run.ray_driver",
        "process_name": "run.where",
        "rank_logs": "run.rank_logs",
        "rank_stories": "run.rank_stories",
        "read_crashes": "run.crashes",
        "read_failed_first": "first.boxes",
        "read_material": "run.material",
        "read_stalls": "run.stalls",
        "telling_stall": "run.stalls",
        "to_lines": "text.lines",
        "trend_of": "run.trend",
        "url_error": "text.typed_names",
        "who_failed_first": "first.ray",
        "with_dumps": "run.flight_evidence",
        "words_of_ray": "first.ray",
        "workers_in": "run.ray_driver",
    },
)
