"""The answer about edits and commits in sentences. In: the document of `isolate`."""

from __future__ import annotations

from typing import Any


def headline_about_program(document: dict[str, Any], sure: str) -> str | None:
    """None where the question was about other changes."""
    status = document["status"]
    if "edits" in document:
        return _about_edits(document, status, sure)
    found = document.get("bisect")
    if not found:
        return None
    if status == "confirmed":
        commits = " or ".join(
            f"{each['commit'][:10]} {each['subject']!r}" for each in found["first_bad"]
        )
        return f"Confirmed: the failure came with {commits} ({sure})."
    if status == "none-of-these":
        return f"None of these commits: {found['good'][:10]} fails already ({sure})."
    return None


def _about_edits(document: dict[str, Any], status: str, sure: str) -> str | None:
    tried = [text for text in document["edits"] if text not in document["not_applicable"]]
    count = len(tried)
    changes = document["changes"]
    if status == "confirmed" and set(changes) <= set(tried):
        names = " and ".join(text.removeprefix("edit:") for text in changes)
        both = "" if len(changes) == 1 else "both of "
        edits = "edit" if len(changes) == 1 else "edits"
        return f"Confirmed: taking back {both}your {edits} {names} removes the failure ({sure})."
    if status == "none-of-these":
        if count == 1:
            return f"Not your edit: taking it back does not remove the failure ({sure})."
        return (
            f"None of your {count} edits: taking back any of them, or all of them, does not remove"
            f" the failure ({sure})."
        )
    return None


def lines_about_program(document: dict[str, Any]) -> list[str]:
    """The lines of the edit that was found, and how to take it back or see it."""
    if document["status"] != "confirmed":
        return []
    lines = []
    for text in document["changes"]:
        lines += [f"  {line}" for line in document.get("edits", {}).get(text, [])[:6]]
    found = document.get("bisect")
    if found:
        lines.append(f"See it: git show {found['first_bad'][-1]['commit'][:10]}")
    return lines
