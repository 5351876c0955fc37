"""What macOS leaves behind: crash reports (.ips) and jetsam (memory pressure) kills.

In: the text of a report file or of log lines. Out: plain dicts with what a diagnosis needs.
A report is two JSON documents: one line of metadata, then the body; versions of macOS differ in
what they fill in. Promises: any text is accepted; what is missing is left out; None means that
this is not such a report. No Mac was at hand: the parsers are tested on text written after
Apple's documentation of the formats.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from rerail.bounded import Count, Pid
from rerail.platform.patterns import linear
from rerail.store import (
    DecodeError,
    FileTooLarge,
    NotARegularFile,
    checks_of,
    loads,
    observed,
    read_regular,
)

REPORT_FOLDERS = (
    Path.home() / "Library/Logs/DiagnosticReports",
    Path("/Library/Logs/DiagnosticReports"),
)
# ReportCrash writes its file some seconds after the death.
LONGEST_WAIT_SECONDS = 4.0
MOST_REPORT_BYTES = 512 << 10
MOST_REPORTS = 8

# Forms of the kernel's line over the years:
#   memorystatus: killing_specific_process pid 71 [python3.11] (per-process-limit 3 9s) 8388KB - …
#   memorystatus: killing_top_process pid 71 [python3.11] jetsam_reason->osr_code: 4
#   memorystatus: killing largest compressed process python3.11 [71] 198602 MB
#   low swap: killing largest compressed process with pid 71 (python3.11) and size 91234 MB
_JETSAM_LINE = linear(
    r"memorystatus: kill\w*_process\w* pid (?P<pid>\d{1,10}) \[(?P<name>[^\]]{0,255})\]"
    r"(?: \((?P<reason>[\w-]{1,64})[^)]{0,255}\))?(?:.*?osr_code: (?P<code>\d{1,9}))?"
    r"(?: (?P<kib>\d{1,18})KB)?"
)
_COMPRESSED_LINE = linear(
    r"killing largest compressed process "
    r"(?:with pid (?P<pid>\d{1,10}) \((?P<name>[^)]{0,255})\) and size"
    r"|(?P<name2>.{0,255}?) \[(?P<pid2>\d{1,10})\]) (?P<mib>\d{1,15}) ?MB"
)
# The kernel's numbers for a jetsam's reason, as far as they are about memory.
_REASON_CODES = {
    "2": "highwater",
    "4": "vm-pageshortage",
    "5": "proc-thrashing",
    "6": "fc-thrashing",
    "7": "per-process-limit",
    "9": "idle-exit",
    "10": "zone-map-exhaustion",
    "11": "vm-compressor-thrashing",
    "12": "vm-compressor-space-shortage",
    "13": "low-swap",
}


_FIELDS = checks_of(
    {
        **dict.fromkeys(("pid", "parent_pid"), Pid),
        **dict.fromkeys(("process", "path", "captured", "os", "exception", "signal"), str),
        **dict.fromkeys(("subtype", "termination", "terminated_by", "thread", "reason"), str),
        **dict.fromkeys(("largest", "library", "function"), str),
        **dict.fromkeys(("rss_bytes", "compressed_bytes", "offset"), Count),
    }
)


def _documents(text: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    head, _, rest = text.lstrip().partition("\n")
    try:
        metadata, body = loads(head), loads(rest)
    except DecodeError:
        try:  # a report may have been pasted as one document
            metadata = body = loads(text)
        except DecodeError:
            return None
    if not isinstance(metadata, dict) or not isinstance(body, dict):
        return None
    return metadata, body


def _frames(thread: dict[str, Any], images: list[Any]) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    listed = thread.get("frames")
    for frame in listed if isinstance(listed, list) else []:
        if not isinstance(frame, dict):
            continue
        index = frame.get("imageIndex")
        image = images[index] if isinstance(index, int) and 0 <= index < len(images) else {}
        image = image if isinstance(image, dict) else {}
        found = {
            "library": image.get("path") or image.get("name"),
            "offset": frame.get("imageOffset"),
            "function": frame.get("symbol"),
        }
        frames.append(dict.fromkeys(found) | observed(found, _FIELDS))
    return frames


def parse_ips(text: str) -> dict[str, Any] | None:
    """A crash report: process, signal, why, and the frames of the thread that crashed."""
    documents = _documents(text)
    if documents is None:
        return None
    metadata, body = documents
    exception = body.get("exception")
    threads = body.get("threads")
    if not isinstance(exception, dict) or not isinstance(threads, list):
        return None
    termination = body.get("termination")
    termination = termination if isinstance(termination, dict) else {}
    images = body.get("usedImages")
    images = images if isinstance(images, list) else []
    at = body.get("faultingThread")
    faulting = next(
        (thread for thread in threads if isinstance(thread, dict) and thread.get("triggered")),
        threads[at] if isinstance(at, int) and 0 <= at < len(threads) else {},
    )
    faulting = faulting if isinstance(faulting, dict) else {}
    messages = body.get("asi")
    return _without_none(
        {
            "pid": body.get("pid"),
            "parent_pid": body.get("parentPid"),
            "process": body.get("procName") or metadata.get("app_name"),
            "path": body.get("procPath"),
            "captured": body.get("captureTime") or metadata.get("timestamp"),
            "os": metadata.get("os_version"),
            "exception": exception.get("type"),
            "signal": exception.get("signal"),
            "subtype": exception.get("subtype"),
            "termination": termination.get("indicator") or termination.get("namespace"),
            "terminated_by": termination.get("byProc"),
            "messages": _messages(messages),
            "thread": faulting.get("name") or faulting.get("queue"),
            "frames": _frames(faulting, images),
            "libraries": [
                image["path"]
                for image in images
                if isinstance(image, dict) and isinstance(image.get("path"), str)
            ],
        }
    )


def _messages(value: Any) -> list[str]:
    """Application-specific information: what abort() and the runtimes said last."""
    if not isinstance(value, dict):
        return []
    return [str(line) for lines in value.values() if isinstance(lines, list) for line in lines]


def parse_jetsam(text: str) -> list[dict[str, Any]]:
    """Processes that were killed for memory, from a JetsamEvent report or from log lines."""
    documents = _documents(text)
    if documents is not None:
        return _jetsam_report(documents[1])
    kills: list[dict[str, Any]] = []
    for line in text.splitlines():
        if found := _JETSAM_LINE.search(line):
            kib = found["kib"]
            kill = {
                "pid": int(found["pid"]),
                "process": found["name"],
                "reason": found["reason"] or _REASON_CODES.get(found["code"] or ""),
                "rss_bytes": int(kib) * 1024 if kib else None,
            }
        elif found := _COMPRESSED_LINE.search(line):
            kill = {
                "pid": int(found["pid"] or found["pid2"]),
                "process": found["name"] or found["name2"],
                "reason": "low-swap",
                "compressed_bytes": int(found["mib"]) << 20,
            }
        else:
            continue
        kills.append(_without_none(kill))
    return kills


def _jetsam_report(body: dict[str, Any]) -> list[dict[str, Any]]:
    status = body.get("memoryStatus")
    page_bytes = status.get("pageSize") if isinstance(status, dict) else None
    page_bytes = page_bytes if isinstance(page_bytes, int) else 16384
    kills: list[dict[str, Any]] = []
    processes = body.get("processes")
    for process in processes if isinstance(processes, list) else []:
        # Every process is listed; those that were killed have a reason.
        if not isinstance(process, dict) or not process.get("reason"):
            continue
        pages = process.get("rpages")
        kills.append(
            _without_none(
                {
                    "pid": process.get("pid"),
                    "process": process.get("name"),
                    "reason": process.get("reason"),
                    "rss_bytes": pages * page_bytes if isinstance(pages, int) else None,
                    "largest": body.get("largestProcess"),
                }
            )
        )
    return kills


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """What is there and is what its name says."""
    kept = observed(values, _FIELDS)
    return {key: value for key, value in kept.items() if value not in (None, [], "")}


def collect_reports(
    pids: set[int],
    since_unix: float,
    *,
    wait: bool,
    folders: tuple[Path, ...] = REPORT_FOLDERS,
) -> list[str]:
    """Texts of the reports that concern these processes, waiting for them if there was a crash."""
    deadline = time.monotonic() + (LONGEST_WAIT_SECONDS if wait else 0.0)
    while True:
        reports = [
            text
            for folder in folders
            for text in _new_reports(folder, since_unix)
            if _concerns(text, pids)
        ]
        if reports or time.monotonic() >= deadline:
            return reports[:MOST_REPORTS]
        time.sleep(0.25)


def _new_reports(folder: Path, since_unix: float) -> list[str]:
    texts: list[str] = []
    try:
        for path in sorted(folder.glob("*.ips")):
            if path.stat().st_mtime >= since_unix:
                with contextlib.suppress(FileTooLarge, NotARegularFile):
                    texts.append(read_regular(path, MOST_REPORT_BYTES).decode(errors="replace"))
    except OSError:
        pass
    return texts


def _concerns(text: str, pids: set[int]) -> bool:
    crash = parse_ips(text)
    if crash is not None:
        return crash.get("pid") in pids
    return any(kill.get("pid") in pids for kill in parse_jetsam(text))
