"""The fields that events have, and the kind of each (docs/run-folder.md, "Events")."""

from __future__ import annotations

from rerail.bounded import Count, Number, Pid, Time
from rerail.store.codec import checks_of

EVENT_FIELDS = checks_of(
    {
        **dict.fromkeys(("pid", "ppid", "sender_pid"), Pid),
        **dict.fromkeys(("start", "rank", "offset", "line", "bytes", "lines"), Count),
        "exit_code": int,
        **dict.fromkeys(("role", "name", "signal", "source", "sender_name", "file"), str),
        **dict.fromkeys(("what", "why", "text", "action"), str),
        **dict.fromkeys(("gate", "metric", "asks", "unit"), str),
        **dict.fromkeys(("actor", "exit_type", "exit_detail", "memory"), str),
        "said": list[str],
        **dict.fromkeys(("part", "collective"), str),
        **dict.fromkeys(("at_step", "since_step", "number"), Count),
        "is_met": bool,
        "at": Count,
        "value": Number,
        "command": list[str],
        "core": bool,
        **dict.fromkeys(("used", "limit"), Number),
        **dict.fromkeys(("silent_seconds", "threshold_seconds", "unix"), Time),
    }
)
