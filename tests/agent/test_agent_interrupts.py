"""Ctrl-C and the user's signal handlers: what they raise reaches the program, hooks or not."""

from __future__ import annotations

import pytest
from agent_runs import Runner

# `kill` returns to Python without a look at signals, as a long call into C++ does. The first Python
# code after it is the hook.
AFTER_A_CALL = """
import ctypes, os, signal, sys
native = sys.modules["rerail_native"]
told = []
def before(args, kwargs):
    {before}
def after(args, kwargs, result):
    told.append(result)
    {after}
class Expired(Exception): pass
def expired(*_): raise Expired
signal.signal(signal.SIGALRM, expired)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
send = ctypes.CDLL(None).kill
work = native.wrap({wrapped}, before=before, after=after)
try:
    work({arguments})
    print("lost")
except BaseException as error:
    print(type(error).__name__, told == [...] * len(told))
"""


@pytest.mark.parametrize(
    ("number", "raised"),
    [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "SystemExit"), ("SIGALRM", "Expired")],
)
def test_a_signal_during_a_call_is_the_program_s(run: Runner, number: str, raised: str) -> None:
    fields = {"before": "pass", "after": "pass", "wrapped": "send"}
    code = AFTER_A_CALL.format(**fields, arguments=f"os.getpid(), signal.{number}")
    ended = run(["-c", code])

    assert ended.stdout == f"{raised} True\n", ended.stderr
    assert not [note for note in ended.box.notes if "is off" in note]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_signal_during_a_hook_is_the_program_s(run: Runner, when: str) -> None:
    fields = {"before": "pass", "after": "pass", "wrapped": "len"}
    fields[when] = "send(os.getpid(), signal.SIGINT)"
    ended = run(["-c", AFTER_A_CALL.format(**fields, arguments="'ab'")])

    assert ended.stdout.startswith("KeyboardInterrupt "), ended.stdout + ended.stderr


def test_a_hook_that_fails_is_taken_out_as_ever(run: Runner) -> None:
    fields = {"before": "1 / 0", "after": "pass", "wrapped": "len"}
    ended = run(["-c", AFTER_A_CALL.format(**fields, arguments="'ab'")])

    assert ended.stdout == "lost\n"
    assert [note for note in ended.box.notes if "hook on len is off" in note]


def test_a_signal_while_a_collective_is_written_down_is_the_program_s(run: Runner) -> None:
    pytest.importorskip("torch")
    code = """
import ctypes, os, signal, sys, torch, torch.distributed as dist
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
box = sys.modules["rerail_box"]
put, send = box.put_text_at, ctypes.CDLL(None).kill
def put_text_at(*given):
    put(*given)
    send(os.getpid(), signal.SIGINT)
box.put_text_at = put_text_at
try:
    dist.all_reduce(torch.ones(2))
    print("lost", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
box.put_text_at = put
x = torch.ones(2)
dist.all_reduce(x)
print(x.tolist(), flush=True)
os._exit(0)
"""
    ended = run(["-c", code], seconds=120)

    assert ended.stdout == "interrupted\n[1.0, 1.0]\n", ended.stderr
