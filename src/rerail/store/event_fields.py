"""The fields that events have, and what each must be (docs/run-folder.md, "Events")."""

from __future__ import annotations

from rerail.store.plausible import (
    Check,
    is_claim,
    is_count,
    is_number,
    is_pid,
    is_text,
    is_texts,
    is_time,
    is_whole,
)

EVENT_FIELDS: dict[str, Check] = {
    **dict.fromkeys(("pid", "ppid", "sender_pid"), is_pid),
    **dict.fromkeys(("start", "rank", "offset", "line", "bytes", "lines"), is_count),
    "exit_code": is_whole,
    **dict.fromkeys(("role", "name", "signal", "source", "sender_name", "file"), is_text),
    **dict.fromkeys(("what", "why", "text", "action"), is_text),
    **dict.fromkeys(("gate", "metric", "asks", "unit"), is_text),
    **dict.fromkeys(("actor", "exit_type", "exit_detail", "memory"), is_text),
    "said": is_texts,
    "is_met": is_claim,
    "at": is_count,
    "value": is_number,
    "command": is_texts,
    "core": is_claim,
    **dict.fromkeys(("used", "limit"), is_number),
    **dict.fromkeys(("silent_seconds", "threshold_seconds", "unix"), is_time),
}
