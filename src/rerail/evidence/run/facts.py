"""The facts that the record has by itself: the contract's `facts` object, without text.

In: a recorded run and its observations. Out: claims, which `settle` compares with those of others.
What was not observed is None, and is left out there. Names are public interface: docs/evidence.md
lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerail.evidence.run.hit_limits import hit_limits
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.memory import limit_uses, memory_limits, tree_peak
from rerail.evidence.run.ray_worker import ray_facts
from rerail.evidence.run.stalls import hang_facts
from rerail.evidence.run.uses import read_uses
from rerail.evidence.run.where import last_place_of, process_name
from rerail.evidence.settle import Claim
from rerail.platform.command_line import innermost_at, is_python, program_call, program_in_words
from rerail.records import Observation
from rerail.wording import ray_worker_in_words, role_in_words


def read_facts(run: RecordedRun, observations: Sequence[Observation]) -> list[Claim]:
    """Return what the record itself says, without a text that was read."""
    measured = {
        **_memory_facts(run, observations),
        **_resource_facts(run, observations),
        **_setting_facts(observations),
        "uses": read_uses(run),
        **_command_facts(run),
        **_gate_facts(run),
        **_stuck_facts(observations),
        **ray_facts(run),
    }
    if (outcome := run.info.outcome) is not None:
        measured |= {"signal": outcome.signal, "exit_code": outcome.exit_code}
    if run.info.elapsed_seconds is not None:
        measured["elapsed_seconds"] = round(run.info.elapsed_seconds, 3)
    claims = [
        Claim("measured", measured),
        Claim("crash", _crash_facts(run, observations)),
        Claim("hang", hang_facts(observations)),
    ]
    killed = _first(observations, "oom-kill")
    if killed is not None and killed.data["limit_bytes"]:
        claims.append(Claim("killed", last_place_of(run, killed.data["pid"])))
    if (first := _first(observations, "failed-first")) is not None:
        data = first.data
        said = {"failed_first": data.get("who"), "echoes": data.get("others") or None}
        said |= {"rank_story": data.get("story"), "where": data.get("where")}
        claims.append(Claim("first-failure", said))
    return claims


def _stuck_facts(observations: Sequence[Observation]) -> dict[str, Any]:
    stall = _first(observations, "stall")
    if stall is None:
        return {}
    return {
        "stuck_process": f"{stall.data['role']} (pid {stall.data['pid']})",
        "stuck_in": stall.data["functions"][:4] or None,
        "silent_seconds": stall.data["silent_seconds"],
    }


def _gate_facts(run: RecordedRun) -> dict[str, Any]:
    """Gates that were not met, and the one that rerail ended the run for."""
    missed = [event.data for event in run.events_of("gate") if event.data.get("is_met") is False]
    stopped = [data.get("text") for data in missed if data.get("action") == "stop"]
    return {
        "gates_not_met": [data["text"] for data in missed if data.get("text")] or None,
        "stopped_by_gate": stopped[0] if stopped else None,
    }


def _command_facts(run: RecordedRun) -> dict[str, Any]:
    """The program and its interpreter as they were typed, to be typed again.

    Behind a shell script, as the process that trained or failed was started.
    """
    command = run.info.command
    failed = next((box for box in run.boxes if box.exception_type and box.argv), None)
    inner = failed or run.training_box
    if program_call(command) is None and inner is not None:
        command = inner.argv
    call = program_call(command)
    at = innermost_at(command)
    return {
        "script": call.target if call and call.kind == "script" else None,
        "python": command[at] if at < len(command) and is_python(command[at]) else None,
    }


def _first(observations: Sequence[Observation], kind: str) -> Observation | None:
    return next((o for o in observations if o.kind == kind), None)


def _crash_facts(run: RecordedRun, observations: Sequence[Observation]) -> dict[str, Any]:
    crashes = [o.data for o in observations if o.kind == "crash"]
    ended_well = run.info.outcome is not None and run.info.outcome.kind == "ok"
    trained = {box.pid for box in run.boxes if box.optimizer_steps or box.backward_calls}
    if ended_well:  # a helper's crash that the program shrugged off is not the run's
        crashes = [crash for crash in crashes if crash["pid"] in trained]
    if not crashes:
        return {}
    crash = _crash_that_ended_it(crashes, _first(observations, "failed-first"))
    address = crash["address"] if crash["address_kind"] else None
    return {
        "where": crash["where"],
        "crash_signal": crash["signal"],
        "library": crash["library"],
        "function": crash["function"],
        "caller_library": crash["caller_library"],
        "python_function": crash["python_function"],
        "crashed_thread": None if crash["is_main_thread"] else crash["thread_name"],
        "crashed_process": crash["role"],
        "is_at_exit": crash["is_at_exit"] or None,
        "trap": crash["trap"],
        "fault_address": f"0x{address:x}" if address is not None else None,
        "address_kind": crash["address_kind"],
        "last_words": (crash["message"] or "").strip()[:500] or None,
    }


def _crash_that_ended_it(
    crashes: Sequence[dict[str, Any]], first: Observation | None
) -> dict[str, Any]:
    """Not the one that a helper had on its own."""
    of_first = [c for c in crashes if first is not None and c["pid"] == first.data.get("pid")]
    of_ranks = [c for c in reversed(crashes) if c["role"] in ("main", "rank")]
    return next(iter([*of_first, *of_ranks]), crashes[0])


def _memory_facts(run: RecordedRun, observations: Sequence[Observation]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    peak = tree_peak(run)
    if peak is not None:
        facts["peak_rss_bytes"] = peak.rss_bytes
        facts["memory_notion"] = peak.notion
    uses = [use for use in limit_uses(run) if use.source != "ram"]
    killed = _first(observations, "oom-kill")
    if killed is not None and killed.data["limit_bytes"]:
        facts["memory_limit_bytes"] = killed.data["limit_bytes"]
        facts["memory_limit_source"] = killed.data["cgroup"] or "ram"
        facts["victim"] = _victim(run, killed)
    elif uses:
        facts["memory_limit_bytes"] = uses[0].limit_bytes
        facts["memory_limit_source"] = uses[0].source
    elif limits := [limit for limit in memory_limits(run) if limit.source.startswith("cgroup")]:
        facts["memory_limit_bytes"] = limits[0].limit_bytes
        facts["memory_limit_source"] = limits[0].source
    from_outside = _first(observations, "no-oom-kill")
    if from_outside is not None and not from_outside.data.get("is_tidying"):
        facts["killed_from_outside"] = from_outside.text
        facts["victim"] = _victim(run, from_outside)
    space = _first(observations, "address-space-limit")
    if space is not None:
        facts["address_space_limit_bytes"] = space.data["limit_bytes"]
    facts.update(_growth_facts(observations))
    return facts


def _growth_facts(observations: Sequence[Observation]) -> dict[str, Any]:
    """How much memory grew with each step, in which process, and what it is that grew."""
    growths = [
        o.data
        for o in observations
        if o.kind == "memory-growth" and o.data["shape"] == "leak" and "bytes_per_step" in o.data
    ]
    if not growths:
        return {}
    # What filled the memory, if anything did; else what grew most.
    growth = max(growths, key=lambda d: ("reached_limit_bytes" in d, d["rise_bytes"]))
    facts: dict[str, Any] = {
        "leak_bytes_per_step": int(growth["bytes_per_step"]),
        "growth": {
            "bytes_per_step": int(growth["bytes_per_step"]),
            "bytes": growth["rise_bytes"],
            "steps": growth["steps"],
            "process": f"{growth['role']} (pid {growth['pid']})",
        },
    }
    leak = _first(observations, "leak")
    if leak is not None and "what" in leak.data:
        known = ("what", "since_step", "holder", "native_bytes", "is_copied")
        facts["leak"] = {name: leak.data[name] for name in known if name in leak.data}
    return facts


def _victim(run: RecordedRun, killed: Observation) -> str:
    """Who was killed, as a person would point at it."""
    process = next((p for p in run.processes if p.pid == killed.data["pid"]), None)
    if process is None:
        return "a process of the run"
    name = process_name(process, run.rank_of(process))
    if ray_worker_in_words(process.name):
        return f"the {name}" if name.startswith("Ray") else name
    if process.role not in ("main", "rank", "loader-worker") and not name.startswith("rank"):
        what = program_in_words(process.command)
        if not what or process.role == "multiprocessing":  # which has its parent's command
            return f"{role_in_words(process.role)} (pid {process.pid})"
        return f"{what} ({role_in_words(process.role).removeprefix('a ')}, pid {process.pid})"
    a_worker = name.replace("Data", "a Data", 1) if process.worker is None else name
    return {"main process": "the main process"}.get(name, a_worker)


def _resource_facts(run: RecordedRun, observations: Sequence[Observation]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if run.vitals:
        facts["threads"] = max(row.tree.threads for row in run.vitals) or None
        facts["fds"] = (
            max((vitals.fds for row in run.vitals for vitals in row.processes.values()), default=0)
            or None
        )
        facts["processes"] = max(row.process_count for row in run.vitals) or None
    for kind, name in (
        ("fds-near-limit", "fds_limit"),
        ("threads-near-limit", "threads_limit"),
        ("shm-near-limit", "shm_limit_bytes"),
    ):
        near = _first(observations, kind)
        if near is not None:
            facts[name] = int(near.data["limit"])
    facts.update(hit_limits(run, observations))
    # An allocation that is refused at once never shows as use: the size says how little there was.
    sizes = [size for row in run.vitals if (size := row.machine.get("shm_total_bytes"))]
    facts.setdefault("shm_limit_bytes", int(min(sizes)) if sizes else None)
    return facts


def _setting_facts(observations: Sequence[Observation]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    loaders = [o.data for o in observations if o.kind == "loader"]
    if loaders:
        most = max(loaders, key=lambda data: data["workers"])
        facts["loader_workers"] = most["workers"]
        facts["batch_size"] = most["batch_size"]
        facts["start_method"] = most["start_method"] if most["workers"] else None
    ratio = _first(observations, "accumulation")
    if ratio is not None:
        facts["accumulation"] = round(ratio.data["backward_per_step"], 2)
    loaded = _first(observations, "file-loaded")
    if loaded is not None:
        facts["last_file"] = loaded.data["path"]
        facts["last_file_bytes"] = loaded.data["size_bytes"]
    openmp = _first(observations, "openmp-runtimes")
    if openmp is not None:
        facts["openmp_runtimes"] = openmp.data["names"]
    return facts
