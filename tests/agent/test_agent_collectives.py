"""The ring of the last collectives in a rank's black box, written by the library or by the stub."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import Runner

from rerail.records import BlackBox

pytest.importorskip("torch")

ONE_RANK = """
import sys
if {stub_alone}: sys.modules["rerail_native"]._use_collectives = None
import os, torch, torch.distributed as dist
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
def reduce(x):
    dist.all_reduce(x)
def main():
    for step in range(30):
        reduce(torch.ones(3, 4))
    second = dist.new_group([0])
    dist.broadcast(torch.ones(5), 0, group=second)
    works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(2)]
    works[0].wait()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    model(torch.ones(2, 4)).sum().backward()
    try: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)
    except Exception: pass
    sums = [torch.ones(2)]
    dist.all_gather(sums, torch.full((2,), 7.0))
    print(sums[0].tolist(), flush=True)
main()
os._exit(0)
"""


def last_rank(boxes: list[BlackBox]) -> BlackBox:
    return next(box for box in boxes if box.rank is not None)


@pytest.mark.thorough
@pytest.mark.parametrize("stub_alone", [False, True])
def test_the_last_calls_of_a_rank(run: Runner, tmp_path: Path, stub_alone: bool) -> None:
    script = tmp_path / "one.py"
    script.write_text(ONE_RANK.format(stub_alone=stub_alone))
    ended = run([str(script)], seconds=120)

    assert ended.stdout == "[7.0, 7.0]\n", ended.stderr
    box = last_rank(ended.boxes)
    assert not [note for note in box.notes if "is off" in note]
    calls = box.collectives
    assert [call.number for call in calls] == list(
        range(box.collective_count - 19, box.collective_count + 1)
    )
    by_hand = [call for call in calls if call.shape == [3, 4]]
    assert {call.op for call in by_hand} == {"all_reduce"}
    assert [call.sequence for call in by_hand][-1] == 30
    assert by_hand[-1].size_bytes == 48
    place = by_hand[-1].place
    assert place is not None
    assert (Path(place.file).name, place.line, place.function) == ("one.py", 8, "reduce")
    assert by_hand[-1].left_t_seconds is not None
    assert by_hand[-1].left_t_seconds >= by_hand[-1].entered_t_seconds
    other = next(call for call in calls if call.op == "broadcast" and call.shape == [5])
    assert other.sequence == 1 and other.group != by_hand[-1].group
    # Of two that were started, one was waited for.
    assert [c.left_t_seconds is None for c in calls if c.shape == [2]][:2] == [False, True]
    (gradients,) = [call for call in calls if call.op == "gradients"]
    assert gradients.left_t_seconds is not None
    assert [call.has_raised for call in calls if call.shape == [2]][2:3] == [True]
    assert calls[-1].op == "all_gather" and not calls[-1].has_raised
    assert box.collective is None
    assert 0 < box.collective_seconds < 60 and 0 < box.backward_seconds < 60


def test_time_spent_waiting_for_data(run: Runner, tmp_path: Path) -> None:
    code = """
import time
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): time.sleep(0.05); return i
for batch in DataLoader(Slow()): pass
"""
    ended = run(["-c", code])

    assert ended.box.data_wait_seconds >= 0.2


@pytest.mark.parametrize("stub_alone", [False, True])
def test_a_forked_child_counts_for_itself(run: Runner, tmp_path: Path, stub_alone: bool) -> None:
    code = f"""
import sys
if {stub_alone}: sys.modules["rerail_native"]._use_collectives = None
import os, torch, torch.distributed as dist
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
def join(rank):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    numbers = sys.modules["rerail_box"].numbers
    numbers[sys.modules["rerail_layout"].WORD["rank"]] = rank
def reduce():
    dist.all_reduce(torch.ones(2))
join(0)
for _ in range(5): reduce()
dist.destroy_process_group()
child = os.fork()
if child == 0:
    join(1)
    reduce()
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""
    script = tmp_path / "forks.py"
    script.write_text(code)
    ended = run([str(script)], seconds=120)

    child = next(box for box in ended.boxes if box.rank == 1)
    (call,) = [call for call in child.collectives if call.shape == [2]]
    assert call.sequence == 1 and call.group
    assert call.place is not None and call.place.function == "reduce"
