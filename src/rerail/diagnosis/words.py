"""The facts of a diagnosis as words that fill the templates of cause files.

In: a diagnosis. Out: name -> words; what was not observed has no entry. docs/evidence.md lists
the names. `at` is always there: the place, the process and the step, as far as they are known,
to be put behind any statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rerail.diagnosis.short_message import short_message, without_logger
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
    symbol_in_words,
    thread_in_words,
)

if TYPE_CHECKING:
    from rerail.diagnosis.result import Diagnosis

_PID = linear(r" \(pid (\d+)\)")  # one parenthesis inside another is hard to read
_AT_THE_SIDE = ("shell", "helper", "daemon", "launcher")
_MOST_WORDS = 100


def words_of(diagnosis: Diagnosis) -> dict[str, str]:
    facts = diagnosis.facts
    words = {name: text for name, value in facts.items() if (text := _plain(name, value))}
    where = facts.get("where") or {}
    found = {
        "where": place_in_words(where),
        "who": _who(facts, where),
        "thread": thread_in_words(str(crashed))
        if (crashed := facts.get("crashed_thread"))
        else None,
        "step": _step(facts),
        "exception": short_message(str(facts.get("exception_text") or "")),
        "said_last": _said_last(diagnosis),
        "hang": _hang(diagnosis),
        "waited": _waited(facts),
        "thrown": _thrown(facts),
        "seen_before": _seen_before(facts),
        "signal": diagnosis.outcome.signal,
        "limit": _bytes(facts.get("memory_limit_bytes")),
        "peak": _bytes(facts.get("peak_rss_bytes")),
        "growth": _growth(facts),
        "openmp": listed(facts.get("openmp_runtimes") or []),
        "last_file": file_name(str(facts["last_file"])) if facts.get("last_file") else None,
        "package": _package(str(facts.get("missing_module") or "")),
        "death": _death(diagnosis),
        "leak_holder": _leak_holder(facts),
        "afterwards": _of_its_chain(facts),
        "nonfinite_value": _nonfinite(diagnosis),
        "file_there": _file_there(diagnosis),
        **_outside(diagnosis),
    }
    words.update({name: text for name, text in found.items() if text})
    for name in ("file_in_hand", "last_file"):
        if file_name(words.get(name, "\0")) in words.get("exception", ""):
            del words[name]  # the message has named it
    words["at"] = _at(words)
    words["at_victim"] = _at_victim(words, where)
    if crash := _crash(diagnosis, words):
        words["crash"] = crash
    return words


def _at(words: dict[str, str]) -> str:
    inside = f" in {words['where']}" if "where" in words else ""
    notes = ", ".join(words[name] for name in ("who", "thread", "step") if name in words)
    notes = _PID.sub(r", pid \1", notes)
    return f"{inside} ({notes})" if notes else inside


def _at_victim(words: dict[str, str], where: dict[str, Any]) -> str:
    """Behind what was done to one process, if the place may be that of another, who lost it."""
    if "seen_before" in words and "where" in words:
        step = f" ({words['step']})" if "step" in words else ""
        return f"{step}; {words['seen_before']} it was in {words['where']}"
    victim, process = words.get("victim", ""), str(where.get("process") or "main process")
    if "where" not in words or not victim or process in victim:
        return _at({name: text for name, text in words.items() if name != "who"})
    step = f" ({words['step']})" if "step" in words else ""
    return f"{step}; {words['where']} then failed"


def _plain(name: str, value: Any) -> str:
    if isinstance(value, (list, dict, bool)) or value is None:
        return ""
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return bytes_in_words(value)
    if name.endswith("_seconds") and isinstance(value, (int, float)):
        return f"{value} s" if isinstance(value, int) and value < 120 else seconds_in_words(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _who(facts: dict[str, Any], where: dict[str, Any]) -> str:
    """The main process of a run without ranks goes without saying."""
    who = str(where.get("process") or facts.get("failed_first") or "")
    return "" if who == "main process" else who


def _step(facts: dict[str, Any]) -> str:
    step = facts.get("last_step")
    if step is None and facts.get("is_first_step"):
        return "the first step"
    return f"step {step:,}" if isinstance(step, int) else ""


def _crash(diagnosis: Diagnosis, words: dict[str, str]) -> str:
    """ "SIGSEGV in data.py:8 load() (rank 1, step 2), inside f() of lib.so": own code first."""
    facts = diagnosis.facts
    signal = facts.get("crash_signal") or diagnosis.outcome.signal
    if signal not in CRASH_SIGNALS:
        return ""
    library, function = facts.get("library"), facts.get("function")
    inside = f", inside {symbol_in_words(str(function))}()" if function and library else ""
    inside += f" of {library}" if inside else f", inside {library}" if library else ""
    inside += ", which stopped itself by a trap instruction" if facts.get("trap") else ""
    ending = " while the program was exiting" if facts.get("is_at_exit") else ""
    if "where" not in words and not inside:
        return f"The process was killed by {signal}{ending}{words['at']}"
    return f"{signal}{ending}{words['at']}{inside}"


def _said_last(diagnosis: Diagnosis) -> str:
    """What the end of a log says as an error, where nothing was raised."""
    said = (o.text for o in diagnosis.observations if o.kind == "last-words")
    return short_message(next(said, ""))


def _seen_before(facts: dict[str, Any]) -> str:
    seconds = facts.get("seen_seconds_before")
    if not isinstance(seconds, (int, float)):
        return ""
    return f"{seconds_in_words(seconds)} before" if seconds >= 0.1 else "at the last look"


_THROWN = linear(r"^terminate called after throwing an instance of '(?P<type>[^']{1,200})'")
_WHAT = linear(r"what\(\):\s*(?P<said>.+)$")
_ASSERTED = linear(
    r"(?P<place>[^\s:]{1,120}:\d+): (?:[^\n]{1,200}: )?Assertion [`'](?P<that>[^\n]{1,120})' failed"
)
_MANGLED = linear(r"^(?P<std>St)?\d{1,3}(?P<name>[A-Za-z_]\w*)$")


def _thrown(facts: dict[str, Any]) -> str:
    """ "C++ threw std::out_of_range: vector::_M_range_check: …", in its own words."""
    said = " ".join(str(facts.get("last_words") or "").split())
    thrown = _THROWN.search(said)
    if thrown is None:
        asserted = _ASSERTED.search(said)
        return f"assertion `{asserted['that']}` failed in {asserted['place']}" if asserted else ""
    name = thrown["type"]
    if plain := _MANGLED.search(name):
        name = ("std::" if plain["std"] else "") + plain["name"]
    what = _WHAT.search(said)
    return cut(f"C++ threw {name}" + (f": {what['said']}" if what else ""), _MOST_WORDS)


def _hang(diagnosis: Diagnosis) -> str:
    """ "It hung for 48 s in hang.py:7 save(), waiting for a lock that thread 2 holds"."""
    facts = diagnosis.facts
    hang = facts.get("hang") or {}
    seconds = hang.get("seconds")
    if seconds is None or hang.get("kind") == "busy":
        return ""
    where = hang.get("where") or facts.get("where") or {}
    other = str(hang.get("process") or "main process")
    is_other = other != "main process" and str(where.get("process")) != other
    who = f"DataLoader {other}" if other.startswith("worker") else other
    who = who if is_other else _who(facts, where)
    text = f"{who[:1].upper() + who[1:] if who else 'It'} hung for {seconds_in_words(seconds)}"
    place = place_in_words(where)
    text += f" in {place}" if place and not is_other else ""
    text += f" ({step})" if (step := _step(facts)) else ""
    if hang.get("waits_for"):
        text += f", waiting for {hang['waits_for']}"
        holder = hang.get("holder") or {}
        if holder:
            thread = holder.get("thread") or "another thread"
            text += f" that {thread} holds"
            text += f" in {place_in_words(holder)}" if place_in_words(holder) else ""
        if lost := hang.get("lost"):
            text += f": {lost_in_words(lost)}"
    beside = hang.get("beside") or {}
    if beside and not hang.get("lost"):
        text += f", while {beside['who']} waits for {beside['waits_for']}"
        text += f" in {place_in_words(beside)}"
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


def _leak_holder(facts: dict[str, Any]) -> str:
    """ "the list `losses` (train.py:31 train())"."""
    leak = facts.get("leak") or {}
    holder = leak.get("holder") or {}
    if not holder.get("name") or leak.get("is_copied"):
        return ""
    of = " of" if holder.get("kind") == "lru_cache" else ""
    place = place_in_words(holder)
    return f"the {holder.get('kind', 'variable')}{of} `{holder['name']}`" + (
        f" ({place})" if place else ""
    )


def _of_its_chain(facts: dict[str, Any]) -> str:
    """The other exception, where one led to another."""
    for name, how in (("exception_after", "then"), ("exception_before", "before that")):
        other = facts.get(name) or {}
        if said := short_message(without_logger(str(other.get("text") or ""))):
            place = place_in_words(other.get("where") or {}) if name == "exception_before" else ""
            return f"{how} {said}" + (f" in {place}" if place else "")
    return ""


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


def _file_there(diagnosis: Diagnosis) -> str:
    """ "the file model.keras is there, with 1.2 MiB", of one that an exception calls missing."""
    for o in diagnosis.observations:
        if o.kind == "file-there":
            size = bytes_in_words(o.data["size_bytes"])
            return f"the file {file_name(o.data['path'])} is there, with {size}"
    return ""


def _outside(diagnosis: Diagnosis) -> dict[str, str]:
    for o in diagnosis.observations:
        if o.kind == "outside-signal":
            name, pid = o.data.get("sender_name"), o.data.get("sender_pid")
            known = [str(name)] if name else []
            known += [f"(pid {pid})" if name else f"pid {pid}"] if pid else []
            said = {"outside_signal": o.data.get("signal"), "time_limit": o.data.get("time_limit")}
            said["sender"] = " ".join(known)
            if o.data.get("signal") in CRASH_SIGNALS:
                said |= {"sent_crash_signal": o.data["signal"], "victim": o.data.get("victim")}
            return {name: str(words) for name, words in said.items() if words}
    return {}
