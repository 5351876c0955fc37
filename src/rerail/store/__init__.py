"""The store: run folders, written while they happen and read back as records.

`Store(home)` makes, finds, lists and removes runs; `RunWriter` streams one; `RunFolder` reads one;
`find_home` says where they live. docs/run-folder.md is the layout, docs/store.md the promises.
The names below are imported when first asked for, because `rerail run` waits for every import and
needs only those that write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.store import layout, liveness
    from rerail.store.agent_files import AgentDir, AgentFiles
    from rerail.store.appending import describe
    from rerail.store.blackbox import BoxReader, has_lent_box, read_box, read_head, taken_boxes
    from rerail.store.bounds import EXPERIMENT_BYTES, OUTPUT_BYTES
    from rerail.store.codec import (
        DecodeError,
        checks_of,
        decode,
        decoder_of,
        dump_line,
        dumps,
        encode,
        fits,
        loads,
        observed,
    )
    from rerail.store.crashfile import read_crash
    from rerail.store.folder import RunFolder, events_of, printed_points
    from rerail.store.following import FollowedLines, FollowedOutput
    from rerail.store.home import NO_FOLDER, find_home
    from rerail.store.jsonlines import check_schema, read_objects
    from rerail.store.late_events import add_event
    from rerail.store.output_reader import OutputLine, OutputReader
    from rerail.store.output_segments import find_segments
    from rerail.store.printed_box import box_of_output, has_counted
    from rerail.store.process_records import ProcessAssembly
    from rerail.store.progress import (
        SEEN_LATE_SECONDS,
        TrainingProgress,
        bar_of,
        counted_by,
        of_the_last_program,
        printed_by,
        progress_on_record,
        settle_progress,
        training_of,
    )
    from rerail.store.rank_places import with_boxes
    from rerail.store.regular_files import (
        FileTooLarge,
        NotARegularFile,
        open_append,
        open_descriptor,
        open_regular,
        read_regular,
    )
    from rerail.store.separate_writer import SeparateWriter, separate
    from rerail.store.sizes import folder_bytes
    from rerail.store.store import Listing, Store, bring_left_behind_home, fingerprint
    from rerail.store.summaries import RunSummary, read_summary
    from rerail.store.training_process import training_box
    from rerail.store.vitals_columns import process_columns, tree_columns
    from rerail.store.vitals_files import VitalsFiles
    from rerail.store.vitals_rows import VitalsDecoder, read_rows
    from rerail.store.writer import RunWriter

__all__ = [
    "EXPERIMENT_BYTES",
    "NO_FOLDER",
    "OUTPUT_BYTES",
    "SEEN_LATE_SECONDS",
    "AgentDir",
    "AgentFiles",
    "BoxReader",
    "DecodeError",
    "FileTooLarge",
    "FollowedLines",
    "FollowedOutput",
    "Listing",
    "NotARegularFile",
    "OutputLine",
    "OutputReader",
    "ProcessAssembly",
    "RunFolder",
    "RunSummary",
    "RunWriter",
    "SeparateWriter",
    "Store",
    "TrainingProgress",
    "VitalsDecoder",
    "VitalsFiles",
    "add_event",
    "bar_of",
    "box_of_output",
    "bring_left_behind_home",
    "check_schema",
    "checks_of",
    "counted_by",
    "decode",
    "decoder_of",
    "describe",
    "dump_line",
    "dumps",
    "encode",
    "events_of",
    "find_home",
    "find_segments",
    "fingerprint",
    "fits",
    "folder_bytes",
    "has_counted",
    "has_lent_box",
    "layout",
    "liveness",
    "loads",
    "observed",
    "of_the_last_program",
    "open_append",
    "open_descriptor",
    "open_regular",
    "printed_by",
    "printed_points",
    "process_columns",
    "progress_on_record",
    "read_box",
    "read_crash",
    "read_head",
    "read_objects",
    "read_regular",
    "read_rows",
    "read_summary",
    "separate",
    "settle_progress",
    "taken_boxes",
    "training_box",
    "training_of",
    "tree_columns",
    "with_boxes",
]

__getattr__ = door(
    __name__,
    {
        "AgentDir": "agent_files",
        "AgentFiles": "agent_files",
        "BoxReader": "blackbox",
        "DecodeError": "codec",
        "EXPERIMENT_BYTES": "bounds",
        "FileTooLarge": "regular_files",
        "FollowedLines": "following",
        "FollowedOutput": "following",
        "Listing": "store",
        "NO_FOLDER": "home",
        "NotARegularFile": "regular_files",
        "OUTPUT_BYTES": "bounds",
        "OutputLine": "output_reader",
        "OutputReader": "output_reader",
        "ProcessAssembly": "process_records",
        "RunFolder": "folder",
        "RunSummary": "summaries",
        "RunWriter": "writer",
        "SeparateWriter": "separate_writer",
        "Store": "store",
        "VitalsDecoder": "vitals_rows",
        "VitalsFiles": "vitals_files",
        "add_event": "late_events",
        "box_of_output": "printed_box",
        "SEEN_LATE_SECONDS": "progress",
        "TrainingProgress": "progress",
        "bar_of": "progress",
        "counted_by": "progress",
        "of_the_last_program": "progress",
        "printed_by": "progress",
        "progress_on_record": "progress",
        "settle_progress": "progress",
        "bring_left_behind_home": "store",
        "check_schema": "jsonlines",
        "checks_of": "codec",
        "decode": "codec",
        "decoder_of": "codec",
        "fits": "codec",
        "observed": "codec",
        "describe": "appending",
        "dump_line": "codec",
        "dumps": "codec",
        "encode": "codec",
        "events_of": "folder",
        "find_home": "home",
        "find_segments": "output_segments",
        "fingerprint": "store",
        "folder_bytes": "sizes",
        "has_counted": "printed_box",
        "has_lent_box": "blackbox",
        "layout": "layout",
        "liveness": "liveness",
        "loads": "codec",
        "open_append": "regular_files",
        "open_descriptor": "regular_files",
        "open_regular": "regular_files",
        "process_columns": "vitals_columns",
        "read_box": "blackbox",
        "read_crash": "crashfile",
        "read_head": "blackbox",
        "printed_points": "folder",
        "read_objects": "jsonlines",
        "read_regular": "regular_files",
        "read_rows": "vitals_rows",
        "read_summary": "summaries",
        "separate": "separate_writer",
        "taken_boxes": "blackbox",
        "training_box": "training_process",
        "training_of": "progress",
        "tree_columns": "vitals_columns",
        "with_boxes": "rank_places",
    },
)
