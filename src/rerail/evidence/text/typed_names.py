"""What to tell a person whose name of a file leads nowhere.

In: a name as it was typed. Out: an error that says what is wrong and what to type instead, or
None where the name may mean something else, such as a run.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
import shlex
from pathlib import Path

from rerail.errors import UnknownRun, UsageError

_URL = re.compile(r"([a-z][a-z0-9+.-]{0,20})://", re.IGNORECASE)
_FETCHED_BY = {
    **dict.fromkeys(("http", "https", "ftp"), "curl -L {}"),
    "s3": "aws s3 cp {} -",
    **dict.fromkeys(("gs", "gcs"), "gcloud storage cat {}"),
}
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}")
_MOST_NEIGHBOURS = 5000
_ALIKE = 0.75


def url_error(name: str) -> UsageError | None:
    """For a name that is a URL: which command fetches it."""
    found = _URL.match(name)
    if found is None:
        return None
    scheme = found[1].lower()
    if scheme == "file":
        path = name[found.end() :]
        return UsageError(
            f"{name} is a URL.", f"Name the file itself: rerail explain {shlex.quote(path)}"
        )
    command = _FETCHED_BY.get(scheme, "curl -L {}").format(shlex.quote(name))
    return UsageError(
        f"{name} is a URL, and rerail does not download.", f"Type: {command} | rerail explain -"
    )


def no_such_file(name: str) -> UnknownRun | None:
    """For a name that is neither a run nor a file, and was meant for a file.

    It ends like one, or a file is called nearly so.
    """
    close = closest_file(name)
    if close is not None:
        return UnknownRun(
            f"no such file: {name}; did you mean {close}?",
            f"Type: rerail explain {shlex.quote(close)}",
        )
    if os.sep not in name and not _SUFFIX.fullmatch(Path(name).suffix):
        return None
    return UnknownRun(
        f"no such file: {name}",
        "Name a log file, a folder, `-` for standard input, or a run (`rerail runs` lists them).",
    )


def closest_file(name: str) -> str | None:
    """What stands in the same folder by nearly the same name."""
    path = Path(name)
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_NEIGHBOURS)]
    except (OSError, ValueError):
        return None
    by_lower = {other.lower(): other for other in sorted(names) if not other.startswith(".")}
    close = difflib.get_close_matches(path.name.lower(), list(by_lower), n=1, cutoff=_ALIKE)
    return str(path.with_name(by_lower[close[0]])) if close else None
