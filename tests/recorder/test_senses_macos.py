"""macOS reports: texts written after Apple's documentation of the formats, no Mac at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.recorder.kernel import macos

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

METADATA = {
    "app_name": "python3.11",
    "timestamp": "2026-03-02 10:11:12.00 +0100",
    "bug_type": "309",
    "os_version": "macOS 15.3 (24D60)",
    "name": "python3.11",
}
CRASH = {
    "pid": 4711,
    "procName": "python3.11",
    "procPath": "/opt/homebrew/*/Python.framework/Versions/3.11/bin/python3.11",
    "parentPid": 4700,
    "captureTime": "2026-03-02 10:11:11.9031 +0100",
    "exception": {
        "codes": "0x0000000000000000, 0x0000000000000000",
        "type": "EXC_CRASH",
        "signal": "SIGABRT",
    },
    "termination": {
        "code": 6,
        "namespace": "SIGNAL",
        "indicator": "Abort trap: 6",
        "byProc": "python3.11",
        "byPid": 4711,
    },
    "asi": {"libsystem_c.dylib": ["abort() called"]},
    "faultingThread": 0,
    "threads": [
        {
            "triggered": True,
            "id": 99,
            "queue": "com.apple.main-thread",
            "frames": [
                {"imageOffset": 38608, "symbol": "__pthread_kill", "imageIndex": 1},
                {"imageOffset": 120, "symbol": "__kmp_abort_process", "imageIndex": 0},
            ],
        },
        {"id": 100, "frames": []},
    ],
    "usedImages": [
        {"path": "/venv/torch/lib/libomp.dylib", "name": "libomp.dylib", "base": 1, "size": 2},
        {"path": "/usr/lib/system/libsystem_kernel.dylib", "name": "libsystem_kernel.dylib"},
    ],
}
JETSAM = {
    "memoryStatus": {"pageSize": 16384, "memoryPages": {"free": 4000}},
    "largestProcess": "python3.11",
    "processes": [
        {"pid": 71, "name": "Finder", "rpages": 300},
        {"pid": 4711, "name": "python3.11", "rpages": 1000, "reason": "vm-pageshortage"},
    ],
}


def report(metadata: object, body: object) -> str:
    return json.dumps(metadata) + "\n" + json.dumps(body, indent=2)


def test_a_crash_report_names_signal_message_and_frames() -> None:
    found = macos.parse_ips(report(METADATA, CRASH))
    assert found is not None
    assert (found["pid"], found["signal"], found["exception"]) == (4711, "SIGABRT", "EXC_CRASH")
    assert found["messages"] == ["abort() called"]
    assert found["termination"] == "Abort trap: 6"
    assert found["frames"][1] == {
        "library": "/venv/torch/lib/libomp.dylib",
        "offset": 120,
        "function": "__kmp_abort_process",
    }
    assert "/venv/torch/lib/libomp.dylib" in found["libraries"]


def test_a_jetsam_report_is_not_a_crash_and_the_reverse() -> None:
    assert macos.parse_ips(report({"bug_type": "298"}, JETSAM)) is None
    assert macos.parse_jetsam(report(METADATA, CRASH)) == []


def test_a_jetsam_report_names_only_who_was_killed() -> None:
    (kill,) = macos.parse_jetsam(report({"bug_type": "298"}, JETSAM))
    assert (kill["pid"], kill["reason"]) == (4711, "vm-pageshortage")
    assert kill["rss_bytes"] == 1000 * 16384


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "2026-03-02 10:11:12 kernel: 123.456 memorystatus: killing_specific_process pid 4711 "
            "[python3.11] (per-process-limit 3 9s rf:- type:x) 8388608KB - "
            "memorystatus_available_pages: 5000",
            {
                "pid": 4711,
                "process": "python3.11",
                "reason": "per-process-limit",
                "rss_bytes": 8388608 * 1024,
            },
        ),
        (
            "kernel[0:1cd] memorystatus: killing_top_process pid 901 [node] "
            "jetsam_reason->osr_code: 4",
            {"pid": 901, "process": "node", "reason": "vm-pageshortage"},
        ),
        (
            "memorystatus: killing largest compressed process python3.11 [4711] 198602 MB",
            {
                "pid": 4711,
                "process": "python3.11",
                "reason": "low-swap",
                "compressed_bytes": 198602 << 20,
            },
        ),
        (
            "low swap: killing largest compressed process with pid 4711 (python3.11) and "
            "size 91234 MB",
            {
                "pid": 4711,
                "process": "python3.11",
                "reason": "low-swap",
                "compressed_bytes": 91234 << 20,
            },
        ),
    ],
)
def test_lines_of_the_kernel_are_parsed(line: str, expected: dict[str, object]) -> None:
    assert macos.parse_jetsam(f"something else\n{line}\nmore\n") == [expected]


def test_reports_of_other_processes_and_other_days_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "python3.11-2026.ips").write_text(report(METADATA, CRASH))
    (tmp_path / "other.ips").write_text(report(METADATA, {**CRASH, "pid": 1}))
    (tmp_path / "JetsamEvent-2026.ips").write_text(report({"bug_type": "298"}, JETSAM))
    (tmp_path / "torn.ips").write_text('{"app_name": "x"}\n{"pid":')
    folders = (tmp_path, tmp_path / "absent")
    assert len(macos.collect_reports({4711}, 0.0, wait=False, folders=folders)) == 2
    assert macos.collect_reports({5}, 0.0, wait=False, folders=folders) == []
    assert macos.collect_reports({4711}, 4e9, wait=False, folders=folders) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*CRASH, *JETSAM, "frames", "imageIndex", "pid", "reason", "rpages"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@unhurried
@given(json_values, json_values)
def test_any_json_is_survived(metadata: object, body: object) -> None:
    text = report(metadata, body)
    macos.parse_ips(text)
    macos.parse_jetsam(text)


@unhurried
@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    macos.parse_ips(text)
    macos.parse_jetsam(text)
