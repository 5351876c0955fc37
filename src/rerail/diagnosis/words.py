"""The facts of a diagnosis as words that fill the templates of cause files.

In: a diagnosis. Out: name -> words; what was not observed has no entry. docs/evidence.md lists
the names. `at` is always there: the place, the process and the step, as far as they are known,
to be put behind any statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rerail.platform.patterns import linear
from rerail.records import CRASH_SIGNALS
from rerail.wording import (
    bytes_in_words,
    cut,
    ending_in_words,
    file_name,
    listed,
    lost_in_words,
    place_in_words,
    ray_worker_in_words,
    role_in_words,
    seconds_in_words,
)

if TYPE_CHECKING:
    from rerail.diagnosis.result import Diagnosis

MOST_MESSAGE = 160
_AT_THE_SIDE = ("shell", "helper", "daemon", "launcher")
# XGBoost and others begin a message with "[18:40:29] /build/src/data/data.cc:522: ".
_PLACE_IN_CPP = linear(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ")
# What is wrong stands in the line below: load_state_dict, Keras.
_ONLY_ANNOUNCES = linear(r":$|^[\w.]+: Exception encountered when calling .{1,120}\.$")


def words_of(diagnosis: Diagnosis) -> dict[str, str]:
    facts = diagnosis.facts
    words = {name: text for name, value in facts.items() if (text := _plain(name, value))}
    where = facts.get("where") or {}
    found = {
        "where": place_in_words(where),
        "who": _who(facts, where),
        "step": _step(facts),
        "exception": _exception(facts),
        "hang": _hang(diagnosis),
        "waited": _waited(facts),
        "signal": diagnosis.outcome.signal,
        "limit": _bytes(facts.get("memory_limit_bytes")),
        "peak": _bytes(facts.get("peak_rss_bytes")),
        "growth": _growth(facts),
        "openmp": listed(facts.get("openmp_runtimes") or []),
        "last_file": file_name(str(facts["last_file"])) if facts.get("last_file") else None,
        "package": _package(str(facts.get("missing_module") or "")),
        "death": _death(diagnosis),
        "nonfinite_value": _nonfinite(diagnosis),
        **_outside(diagnosis),
    }
    words.update({name: text for name, text in found.items() if text})
    words["at"] = _at(words)
    if crash := _crash(diagnosis, words):
        words["crash"] = crash
    return words


def _at(words: dict[str, str]) -> str:
    inside = f" in {words['where']}" if "where" in words else ""
    notes = ", ".join(words[name] for name in ("who", "step") if name in words)
    return f"{inside} ({notes})" if notes else inside


def _plain(name: str, value: Any) -> str:
    if isinstance(value, (list, dict, bool)) or value is None:
        return ""
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return bytes_in_words(value)
    if name.endswith("_seconds") and isinstance(value, (int, float)):
        return seconds_in_words(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _who(facts: dict[str, Any], where: dict[str, Any]) -> str:
    """The main process of a run without ranks goes without saying."""
    who = str(where.get("process") or facts.get("failed_first") or "")
    return "" if who == "main process" else who


def _step(facts: dict[str, Any]) -> str:
    step = facts.get("last_step")
    return f"step {step:,}" if isinstance(step, int) else ""


def _exception(facts: dict[str, Any]) -> str:
    lines = str(facts.get("exception_text") or "").strip().split("\n")
    first = _PLACE_IN_CPP.sub("", " ".join(lines[0].split()))
    if _ONLY_ANNOUNCES.search(first):
        detail = next((" ".join(line.split()) for line in lines[1:] if line.strip()), "")
        first = f"{first.rstrip('.:')}: {detail}" if detail else first
    return cut(first, MOST_MESSAGE).rstrip(".:")


def _crash(diagnosis: Diagnosis, words: dict[str, str]) -> str:
    """ "SIGSEGV in data.py:8 load() (rank 1, step 2), inside f() of lib.so": own code first."""
    facts = diagnosis.facts
    signal = facts.get("crash_signal") or diagnosis.outcome.signal
    if signal not in CRASH_SIGNALS:
        return ""
    library, function = facts.get("library"), facts.get("function")
    inside = f", inside {cut(str(function), 60)}()" if function and library else ""
    inside += f" of {library}" if inside else f", inside {library}" if library else ""
    if "where" not in words and not inside:
        return f"The process was killed by {signal}{words['at']}"
    return f"{signal}{words['at']}{inside}"


def _hang(diagnosis: Diagnosis) -> str:
    """ "It hung for 48 s in hang.py:7 save(), waiting for a lock that thread 2 holds"."""
    facts = diagnosis.facts
    hang = facts.get("hang") or {}
    seconds = hang.get("seconds")
    if seconds is None or hang.get("kind") == "busy":
        return ""
    where = hang.get("where") or facts.get("where") or {}
    who = _who(facts, where)
    text = f"{who[:1].upper() + who[1:] if who else 'It'} hung for {seconds_in_words(seconds)}"
    text += f" in {place_in_words(where)}" if place_in_words(where) else ""
    if hang.get("waits_for"):
        text += f", waiting for {hang['waits_for']}"
        holder = hang.get("holder") or {}
        if holder:
            thread = holder.get("thread") or "another thread"
            text += f" that {thread} holds"
            text += f" in {place_in_words(holder)}" if place_in_words(holder) else ""
        if lost := hang.get("lost"):
            text += f": {lost_in_words(lost)}"
    return text


def _waited(facts: dict[str, Any]) -> str:
    """ "pool.py:10 waited 48 s for that process": what the death of a worker led to."""
    hang = facts.get("hang") or {}
    lost = hang.get("lost")
    if not lost:
        return ""
    place = place_in_words(hang.get("where") or {}) or "the program"
    whom = f"thread {lost['thread']}" if lost.get("thread") else "that process"
    return f"{place} waited {seconds_in_words(hang['seconds'])} for {whom}"


def _growth(facts: dict[str, Any]) -> str:
    growth = (facts.get("growth") or {}).get("bytes_per_step", facts.get("leak_bytes_per_step"))
    return bytes_in_words(growth) if growth else ""


def _bytes(count: Any) -> str:
    return bytes_in_words(count) if isinstance(count, (int, float)) and count > 0 else ""


# Packages that are installed by another name than they are imported by.
_INSTALLED_AS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "faiss": "faiss-cpu",
    "bs4": "beautifulsoup4",
    "pytorch_lightning": "pytorch-lightning",
    "attr": "attrs",
    "google": "protobuf",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "Crypto": "pycryptodome",
    "ruamel": "ruamel.yaml",
}


def _package(module: str) -> str:
    """What to install for `import module`: its first part, by the name of the package index."""
    first = module.partition(".")[0]
    return _INSTALLED_AS.get(first, first.replace("_", "-"))


def _death(diagnosis: Diagnosis) -> str:
    """How the first worker or rank ended that ended badly, and was not just tidied away.

    The one that the program hung for comes before others, and a shell or a helper after them.
    """
    lost = ((diagnosis.facts.get("hang") or {}).get("lost") or {}).get("pid")
    deaths = [
        o.data
        for o in diagnosis.observations
        if o.kind == "death" and not (o.data.get("is_main") or o.data.get("is_tidying"))
    ]
    if not deaths:
        return ""
    of = min(deaths, key=lambda data: (data.get("pid") != lost, data.get("role") in _AT_THE_SIDE))
    rank = of.get("rank")
    who = role_in_words(of.get("role")) if rank is None else f"rank {rank}"
    if rank is None and (of_ray := ray_worker_in_words(str(of.get("name") or ""))):
        who = f"the {of_ray}"
    how = ending_in_words(of.get("signal"), of.get("exit_code"))
    return f"{who} (pid {of.get('pid')}) {how}"


def _nonfinite(diagnosis: Diagnosis) -> str:
    for o in diagnosis.observations:
        if o.kind == "nonfinite-loss":
            return str(o.data.get("value") or "")
    return ""


def _outside(diagnosis: Diagnosis) -> dict[str, str]:
    for o in diagnosis.observations:
        if o.kind == "outside-signal":
            name, pid = o.data.get("sender_name"), o.data.get("sender_pid")
            known = [str(name)] if name else []
            known += [f"(pid {pid})" if name else f"pid {pid}"] if pid else []
            return {"outside_signal": str(o.data.get("signal") or ""), "sender": " ".join(known)}
    return {}
