from __future__ import annotations

import os

import pytest
from run_builders import box, crash, info, process, recorded

from rerail.evidence.run.crashes import address_kind, faulting_frame, read_crashes
from rerail.records import FaultMapping, LoadedFile, NativeFrame, ThreadStack


@pytest.mark.parametrize(
    ("frames", "library", "function"),
    [
        (
            [
                ("libc.so.6", "pthread_kill"),
                ("libc.so.6", "abort"),
                ("libc.so.6", "free"),
                ("libcollate.so", "release"),
            ],
            "libcollate.so",
            "release",
        ),
        (
            [("libc.so.6", "__restore_rt"), ("libtorch_cpu.so", "at::add")],
            "libtorch_cpu.so",
            "at::add",
        ),
        (
            [("libc.so.6", "abort"), ("libstdc++.so.6", "std::terminate()"), ("libfaiss.so", None)],
            "libfaiss.so",
            None,
        ),
        (
            [("ld-linux-x86-64.so.2", "_dl_fixup"), ("libc.so.6", "memcpy")],
            "ld-linux-x86-64.so.2",
            "_dl_fixup",
        ),
        (
            [
                ("rerail_agent.so", "on_crash"),
                ("libm.so.6", "exp"),
                ("python3.11", "_PyEval_EvalFrameDefault"),
            ],
            "python3.11",
            "_PyEval_EvalFrameDefault",
        ),
    ],
)
def test_the_library_that_is_blamed_is_the_caller_of_the_c_library(frames, library, function):
    (seen,) = read_crashes(recorded(crashes=[crash(native=frames)]))
    assert (seen.data["library"], seen.data["function"]) == (library, function)
    assert library in seen.text


def test_the_caller_of_a_blamed_runtime_is_named_and_the_interpreter_is_not():
    frames = [
        ("libc.so.6", "abort"),
        ("libomp.so.5", None),
        ("libminer.so", "mine"),
        ("libffi.so.8", "ffi_call"),
    ]
    (seen,) = read_crashes(recorded(crashes=[crash(native=frames)]))
    assert (seen.data["caller_library"], seen.data["caller_function"]) == ("libminer.so", "mine")
    assert "called from mine() of libminer.so" in seen.text
    plain = [("libfast.so", "scan"), ("libffi.so.8", "ffi_call"), ("libother.so", "x")]
    (seen,) = read_crashes(recorded(crashes=[crash(native=plain)]))
    assert seen.data["caller_library"] is None


def test_a_crash_without_any_frame_still_says_what_it_knows():
    bare = crash(threads=[], signal="SIGILL", code="ILL_ILLOPN")
    (seen,) = read_crashes(recorded(crashes=[bare]))
    assert faulting_frame(bare) is None and seen.data["library"] is None
    assert "SIGILL" in seen.text


@pytest.mark.parametrize(
    ("code", "address", "kind"),
    [
        ("SEGV_MAPERR", 0, "null"),
        ("SEGV_MAPERR", 0x18, "near-null"),
        ("SI_KERNEL", 0, "non-canonical"),
        ("SI_KERNEL", None, "non-canonical"),
        ("SEGV_MAPERR", 0xDEADBEEFDEADBEEF, "non-canonical"),
        ("SEGV_ACCERR", 0x7F1200000000, "wild"),
        ("SI_USER", None, None),
        ("SI_TKILL", None, None),
    ],
)
def test_kinds_of_address(code, address, kind):
    assert address_kind(crash(code=code, address=address)) == kind


def test_only_faults_have_an_address():
    assert address_kind(crash(signal="SIGABRT", code="SI_TKILL", address=None)) is None


def deep(count: int, name: str = "insert") -> ThreadStack:
    frames = [NativeFrame(0x1000, "/usr/lib/libc.so.6", 1, "vsnprintf")]
    frames += [NativeFrame(0x2000, "/tmp/libtree.so", 2, name)] * count
    return ThreadStack(100, "python", frames, [], True)


def test_a_fault_below_the_stack_is_a_stack_overflow_and_names_who_recursed():
    overflow = crash(
        address=0x7FFC_0000_0000 - 64,
        stack_bounds=(0x7FFC_0000_0000, 0x7FFC_0080_0000),
        registers={"rsp": 0x7FFC_0000_0000 + 16},
        threads=[deep(120)],
        frame_total=4012,
    )
    (seen,) = read_crashes(recorded(crashes=[overflow]))
    assert seen.data["is_stack_overflow"] and seen.data["address_kind"] == "stack"
    assert seen.data["recursing_function"] == "insert"
    assert seen.data["library"] == "libtree.so" and seen.data["top_function"] == "vsnprintf"
    assert "stack overflow" in seen.text and "4012" in seen.text and "insert()" in seen.text


def test_without_bounds_the_stack_pointer_and_the_depth_decide():
    near = {"address": 0x7FFC_0000_0000, "registers": {"rsp": 0x7FFC_0000_0100}}
    assert address_kind(crash(**near, threads=[deep(200)], frame_total=5000)) == "stack"
    assert address_kind(crash(**near)) == "wild"


def test_bounds_that_are_off_by_the_environment_still_tell_an_overflow():
    overflow = crash(
        address=0x7FFC_0000_2048,
        code="SEGV_MAPERR",
        stack_bounds=(0x7FFC_0000_0000, 0x7FFC_0080_0000),
        registers={"rsp": 0x7FFC_0000_2030},
    )
    assert address_kind(overflow) == "stack"


def test_a_fault_inside_the_stack_is_not_an_overflow():
    inside = crash(
        address=0x7FFC_0040_0000,
        stack_bounds=(0x7FFC_0000_0000, 0x7FFC_0080_0000),
        registers={"rsp": 0x7FFC_0040_0100},
        threads=[deep(200)],
        frame_total=3000,
    )
    assert address_kind(inside) == "wild"


def mapping(size: int | None) -> FaultMapping:
    return FaultMapping("/data/tokens.bin", 0x7F00_0000_0000, 0x7F00_0100_0000, 0, size)


def test_a_file_that_was_cut_while_mapped_is_told_with_both_sizes():
    bus = crash(
        signal="SIGBUS", code="BUS_ADRERR", address=0x7F00_0080_0000, fault_mapping=mapping(100_000)
    )
    seen, cut = read_crashes(recorded(crashes=[bus]))
    assert seen.data["address_kind"] == "mapped-file" and seen.data["path"] == "/data/tokens.bin"
    assert cut.kind == "mapped-file-cut"
    assert cut.data == {"path": "/data/tokens.bin", "mapped_bytes": 1 << 24, "size_bytes": 100_000}
    assert "tokens.bin" in cut.text and "100000" in cut.text


@pytest.mark.parametrize("size", [1 << 24, (1 << 24) - 100, None])
def test_a_whole_file_was_not_cut(size):
    bus = crash(signal="SIGBUS", address=0x7F00_0080_0000, fault_mapping=mapping(size))
    assert [o.kind for o in read_crashes(recorded(crashes=[bus]))] == ["crash"]


def test_the_black_box_tells_a_cut_file_on_the_same_machine_only(tmp_path):
    file = tmp_path / "tokens.bin"
    file.write_bytes(b"x" * 1000)
    bus = crash(signal="SIGBUS", address=0x7F00_0080_0000)
    boxes = [box(files=[LoadedFile(str(file), "numpy.memmap", 1 << 20, True)])]
    here = recorded(info=info(host=os.uname().nodename), crashes=[bus], boxes=boxes)
    assert read_crashes(here)[1].data["size_bytes"] == 1000
    there = recorded(info=info(host="there"), crashes=[bus], boxes=boxes)
    assert len(read_crashes(there)) == 1


def test_a_native_thread_is_named():
    native = crash(thread_id=555, thread_name="bankscan", is_main_thread=False)
    (seen,) = read_crashes(recorded(crashes=[native]))
    assert seen.source == "stack:100:555"
    assert "bankscan" in seen.text and "not the main thread" in seen.text


def test_crashes_come_in_order_of_time():
    runs = recorded(
        processes=[process(), process(101, "rank", rank=1)],
        crashes=[crash(100, t_seconds=9.0), crash(101, t_seconds=3.0), crash(100, t_seconds=None)],
    )
    assert [o.data["t_seconds"] for o in read_crashes(runs)] == [3.0, 9.0, None]
