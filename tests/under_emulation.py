"""What an emulator of another processor (qemu-user) cannot show, and why.

`scripts/test-arm64` sets TEST_UNDER_EMULATION; conftest.py skips then what is listed here, and
gives every program more time.
"""

from __future__ import annotations

import subprocess
from typing import Any

TIMES_SLOWER = 10  # a run of `true` takes 3 s on a free machine, and 20 s on one that is not
NO_SECCOMP = "the emulator knows no seccomp"
NO_OTHER_MEMORY = "the emulator has no process_vm_readv, which fails where a read would fault"
STARTS = "the emulator makes up /proc/self/stat: a process has another start time at every exec"
NO_SECOND_MAP = "the emulator cannot map a mapping twice: a forked child makes files of its own"
NO_STACK_LIMIT = "the emulator gives the main thread a stack of its own, with other bounds"
NO_TREE = (
    "in /proc every process is the emulator: its name, command and memory are not the program's"
)
NO_PARENT = (
    "a Python parent is the emulator in /proc: what it ignores for itself (SIGPIPE, SIGXFSZ) is"
    " taken for what its children are to ignore"
)
NO_CLOSED_STREAM = (
    "the kernel gives the program to the emulator as an open file, in the place of a closed stream"
)
NO_ADOPTION = "the emulator refuses PR_SET_CHILD_SUBREAPER: the adoption of orphans is missing too"
NO_TRACING = "nothing can be traced under the emulator"

# A part of a test's name, as pytest writes it.
CANNOT_SHOW = {
    "SYS_SECCOMP": NO_SECCOMP,
    "test_under_address_and_undefined_behaviour_sanitizers": NO_OTHER_MEMORY,
    "test_whole_library_under_sanitizers": NO_TRACING,  # as the check for leaks does
    "test_exec_begins_a_new_record": STARTS,
    "test_a_forked_child_that_becomes_another_program_has_one_box": STARTS,
    "test_every_forked_process_has_its_own_box": STARTS,
    "test_hundreds_of_forks_make_one_file_and_the_dead_are_told": NO_SECOND_MAP,
    "test_the_stub_s_table_is_that_of_the_c_code": NO_SECOND_MAP,
    "test_more_children_at_once_than_boxes_were_set_aside": NO_SECOND_MAP,
    "test_stacks_of_a_forked_child_are_its_own": NO_SECOND_MAP,
    "test_stack_overflow[main]": NO_STACK_LIMIT,
    "test_every_fatal_signal": NO_PARENT,
    "test_a_reader_that_goes_away_gives_the_command_its_sigpipe": NO_PARENT,
    "test_closed_standard_streams_stay_closed": NO_CLOSED_STREAM,
    "test_a_sense_that_cannot_be_closed_costs_its_own_data_alone": NO_ADOPTION,
    "tests/recorder/test_run_tree.py": NO_TREE,
    "tests/recorder/test_run_roles.py": NO_TREE,
    "tests/recorder/test_senses_": NO_TREE,
    "tests/recorder/test_run_hangs.py": NO_TRACING,
    "tests/recorder/test_run_stalls.py": NO_TRACING,
    "tests/recorder/test_stalls_reading.py": NO_TRACING,
}


def why_not(test: str) -> str | None:
    """The reason why a test cannot pass there; None where it can."""
    return next((why for part, why in CANNOT_SHOW.items() if part in test), None)


def be_patient() -> None:
    """Give what a test starts more time: its limits are those of a machine, not of an emulator."""
    wait, communicate = subprocess.Popen.wait, subprocess.Popen.communicate

    def patient_wait(self: Any, timeout: float | None = None) -> Any:
        return wait(self, _longer(timeout))

    def patient_communicate(self: Any, input: Any = None, timeout: float | None = None) -> Any:
        return communicate(self, input, _longer(timeout))

    subprocess.Popen.wait = patient_wait  # type: ignore[method-assign]
    subprocess.Popen.communicate = patient_communicate  # type: ignore[method-assign]


def _longer(timeout: float | None) -> float | None:
    return None if timeout is None else timeout * TIMES_SLOWER
