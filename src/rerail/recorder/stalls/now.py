"""Where every process of a live run is right now.

In: the folder of a run that is still going. Out: a `Stall` that nobody keeps: the stacks of all its
processes, and who holds the locks that they wait for. Promises: nothing is written; what cannot be
read is left out. The agent inside answers where there is one; py-spy is asked where it is installed
and may look.
"""

from __future__ import annotations

import time

from rerail.recorder.stalls import stacks
from rerail.recorder.stalls.look import find_holders
from rerail.recorder.stalls.places import find_places, most_workers, who_is_who
from rerail.records import Stall
from rerail.store import RunFolder


def look_now(folder: RunFolder, pid: int | None = None) -> Stall:
    """`pid`: only this process of the run."""
    records = [
        process
        for process in folder.processes()
        if process.ended_t_seconds is None and pid in (None, process.pid)
    ]
    found = stacks.take(records, folder.agent_files())
    boxes = {f"{box.pid}-{box.start_ticks}": box for box in folder.boxes()}
    places = find_places(found, who_is_who(records, boxes), most_workers(boxes.values()))
    t_seconds = max(0.0, time.time() - folder.info().started_unix)
    return Stall(t_seconds, 0.0, 0.0, "report", found, holders=find_holders(places, found))
