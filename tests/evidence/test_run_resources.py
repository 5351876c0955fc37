from __future__ import annotations

import pytest
from run_builders import MIB, box, crash, process, recorded, row, steps

from rerail.evidence.run.libraries import read_libraries
from rerail.evidence.run.limits import read_limits
from rerail.records import AfterDeath, Event, MappedLibrary, MemoryLimit, ProcessVitals


def by_kind(observations):
    return {o.kind: o for o in observations}


def test_descriptors_against_the_limit_the_process_set_for_itself():
    rows = [row(t, p100=ProcessVitals(fds=10 + 4 * t)) for t in range(60)]
    run = recorded(
        vitals=rows,
        surroundings={"limits": {"RLIMIT_NOFILE": [1048576, 1048576]}},
        events=[Event(58.0, "limit-near", {"what": "fds", "used": 240, "limit": 256, "pid": 100})],
        boxes=[box(optimizer_steps=120, history=steps(120))],
    )
    seen = by_kind(read_limits(run))["fds-near-limit"]
    assert seen.data["limit"] == 256 and seen.data["grows"]
    assert seen.data["per_step"] == pytest.approx(2.0, rel=0.05)
    assert "256" in seen.text and "RLIMIT_NOFILE" in seen.text and "growing" in seen.text


def test_descriptors_far_below_the_limit_are_not_worth_a_word():
    rows = [row(t, p100=ProcessVitals(fds=60)) for t in range(60)]
    assert (
        read_limits(recorded(vitals=rows, surroundings={"limits": {"RLIMIT_NOFILE": 1024}})) == []
    )


@pytest.mark.parametrize(
    "limits",
    [
        {"RLIMIT_NOFILE": {"soft": 64, "hard": 64}},
        {"RLIMIT_NOFILE": [64, 64]},
        {"RLIMIT_NOFILE": 64},
    ],
)
def test_a_limit_may_be_written_in_several_ways(limits):
    rows = [row(1.0, p100=ProcessVitals(fds=60))]
    seen = by_kind(read_limits(recorded(vitals=rows, surroundings={"limits": limits})))
    assert seen["fds-near-limit"].data["limit"] == 64


def test_threads_against_the_pids_cgroup():
    rows = [
        row(
            t,
            {"cgroup_tasks": 3.0 + t, "cgroup_tasks_limit": 64.0},
            p100=ProcessVitals(threads=3 + t),
        )
        for t in range(61)
    ]
    run = recorded(
        vitals=rows,
        after=AfterDeath(task_limits=[{"path": "/job_7", "max": 64, "peak": 64}]),
        boxes=[box(optimizer_steps=122, history=steps(122))],
    )
    seen = by_kind(read_limits(run))["threads-near-limit"]
    assert seen.data["limit"] == 64 and seen.data["used"] == 64 and seen.data["grows"]
    assert seen.data["per_step"] == pytest.approx(0.5, rel=0.05)
    assert "pids cgroup" in seen.text and "64" in seen.text and "0.5" in seen.text


def test_shared_memory_and_disk():
    machine = {
        "shm_used_bytes": 30.0 * MIB,
        "shm_total_bytes": 32.0 * MIB,
        "cwd_disk_free_bytes": 1.0 * MIB,
        "cwd_disk_total_bytes": 900.0 * MIB,
    }
    seen = by_kind(read_limits(recorded(vitals=[row(1.0, machine)])))
    assert seen["shm-near-limit"].data["limit"] == 32 * MIB
    assert "32 MiB" in seen["shm-near-limit"].text
    assert "1 MiB" in seen["disk-near-limit"].text


@pytest.mark.parametrize("where", ["surroundings", "after"])
def test_a_limit_of_the_address_space_is_always_told(where):
    limit = 4 << 30
    run = (
        recorded(surroundings={"limits": {"RLIMIT_AS": limit}})
        if where == "surroundings"
        else recorded(after=AfterDeath(memory_limits=[MemoryLimit("RLIMIT_AS", limit)]))
    )
    (seen,) = read_limits(run)
    assert seen.data == {"limit_bytes": limit} and "4 GiB" in seen.text and "RLIMIT_AS" in seen.text


def test_rubbish_in_limits_is_passed_over():
    run = recorded(
        surroundings={
            "limits": {"RLIMIT_AS": "unlimited", "RLIMIT_NOFILE": [], "RLIMIT_NPROC": True}
        },
        events=[Event(1.0, "limit-near", {"what": "fds", "used": "many", "limit": None})],
        after=AfterDeath(task_limits=[{"max": "max", "peak": None}, {}]),
        vitals=[row(1.0, p100=ProcessVitals(fds=9, threads=9))],
    )
    assert read_limits(run) == []


def openmp(path: str, flavour: str) -> MappedLibrary:
    return MappedLibrary(path, "openmp", flavour)


@pytest.mark.parametrize(
    ("libraries", "count", "aborting"),
    [
        ([openmp("/a/libomp.so.5", "libomp"), openmp("/b/libiomp5.so", "libiomp5")], 2, True),
        ([openmp("/a/libiomp5.so", "libiomp5"), openmp("/b/libiomp5.so", "libiomp5")], 2, True),
        ([openmp("/a/libgomp.so.1", "libgomp"), openmp("/b/libgomp-0.so", "libgomp")], 2, False),
        ([openmp("/a/libgomp.so.1", "libgomp"), openmp("/b/libiomp5.so", "libiomp5")], 2, False),
        ([openmp("/a/libgomp.so.1", "libgomp")] * 3, 1, False),
    ],
)
def test_which_runtimes_abort_together(libraries, count, aborting):
    (seen,) = read_libraries(recorded(libraries={"100-7": libraries}))
    assert seen.data["count"] == count and seen.data["aborting_pair"] is aborting
    assert seen.source == "maps:100"
    assert all(path in seen.text for path in seen.data["paths"])


def test_the_crash_record_knows_better_than_the_last_look():
    late = [openmp("/a/libomp.so.5", "libomp"), openmp("/b/libiomp5.so", "libiomp5")]
    run = recorded(libraries={"100-7": late[:1]}, crashes=[crash(libraries=late)])
    assert read_libraries(run)[0].data["count"] == 2


def test_forty_workers_with_the_same_libraries_say_it_once():
    both = [openmp("/a/libgomp.so.1", "libgomp"), openmp("/b/libgomp-0.so", "libgomp")]
    processes = [process(), *(process(200 + i, "loader-worker") for i in range(40))]
    run = recorded(processes=processes, libraries={p.key: both for p in processes})
    (seen,) = read_libraries(run)
    assert seen.data["role"] == "main"


def test_two_blas_and_two_cuda_majors():
    libraries = [
        MappedLibrary("/a/libopenblas.so.0", "blas", "openblas"),
        MappedLibrary("/b/libmkl_rt.so.2", "blas", "mkl"),
        MappedLibrary("/c/libcublas.so.11", "cuda", "cublas"),
        MappedLibrary("/d/libcublas.so.12", "cuda", "cublas"),
        MappedLibrary("/d/libcudart.so.12", "cuda", "cudart"),
    ]
    seen = by_kind(read_libraries(recorded(libraries={"100-7": libraries})))
    assert seen["blas-libraries"].data["flavours"] == ["mkl", "openblas"]
    assert seen["cuda-libraries"].data["paths"] == ["/c/libcublas.so.11", "/d/libcublas.so.12"]
