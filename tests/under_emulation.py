"""What an emulator of another processor (qemu-user) cannot show, and why.

`scripts/test-arm64` sets TEST_UNDER_EMULATION; conftest.py skips then what is listed here.
"""

from __future__ import annotations

NO_SECCOMP = "the emulator knows no seccomp"
NO_OTHER_MEMORY = "the emulator has no process_vm_readv, which fails where a read would fault"
STARTS = "the emulator makes up /proc/self/stat: a process has another start time at every exec"
NO_SECOND_MAP = "the emulator cannot map a mapping twice: a forked child makes files of its own"
NO_STACK_LIMIT = "the emulator gives the main thread a stack of its own, with other bounds"
NO_TREE = (
    "in /proc every process is the emulator: its name, command and memory are not the program's"
)
NO_TRACING = "nothing can be traced under the emulator"

# A part of a test's name, as pytest writes it.
CANNOT_SHOW = {
    "SYS_SECCOMP": NO_SECCOMP,
    "test_under_address_and_undefined_behaviour_sanitizers": NO_OTHER_MEMORY,
    "test_exec_begins_a_new_record": STARTS,
    "test_a_forked_child_that_becomes_another_program_has_one_box": STARTS,
    "test_every_forked_process_has_its_own_box": STARTS,
    "test_hundreds_of_forks_make_one_file_and_the_dead_are_told": NO_SECOND_MAP,
    "test_the_stub_s_table_is_that_of_the_c_code": NO_SECOND_MAP,
    "test_more_children_at_once_than_boxes_were_set_aside": NO_SECOND_MAP,
    "test_stacks_of_a_forked_child_are_its_own": NO_SECOND_MAP,
    "test_stack_overflow[main]": NO_STACK_LIMIT,
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
