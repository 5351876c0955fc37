"""What was happening when it ended, in one to three lines.

In: the `facts` of a diagnosis. Out: sentences. Only what was observed is said.
"""

from __future__ import annotations

from typing import Any

from rerail.evidence.run_words import bytes_in_words

_PROGRESS = (("epoch", "epoch"), ("last_step", "step"), ("phase", "phase"), ("loss", "loss"))


def what_was_happening(facts: dict[str, Any]) -> list[str]:
    lines = []
    progress = [f"{word} {facts[name]}" for name, word in _PROGRESS if facts.get(name) is not None]
    if progress:
        lines.append("Last seen: " + ", ".join(progress) + ".")
    where = []
    if facts.get("library"):
        inside = f" in {facts['function']}" if facts.get("function") else ""
        where.append(f"library {facts['library']}{inside}")
    if facts.get("crashed_thread"):
        where.append(f"thread {facts['crashed_thread']}")
    if facts.get("failed_first"):
        where.append(f"{facts['failed_first']} failed first")
    if facts.get("stuck_process"):
        where.append(f"stuck: {facts['stuck_process']}")
    if facts.get("raised_at") and not facts.get("library"):
        where.append(f"{facts.get('exception', 'raised')} at {facts['raised_at']}")
    if where:
        lines.append("Where: " + ", ".join(where) + ".")
    if facts.get("peak_rss_bytes"):
        memory = f"Memory: peak {bytes_in_words(facts['peak_rss_bytes'])}"
        if facts.get("memory_limit_bytes"):
            memory += f" of a limit of {bytes_in_words(facts['memory_limit_bytes'])}"
        lines.append(memory + ".")
    return lines
