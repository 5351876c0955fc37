"""What was upgraded since a day, or since a lock file was written.

In: a date or a file, and a command. Out: the changes that take each difference back, compared with
what is installed now for that command. Of a date, what was installed then is what the last run
before it recorded. Promises: nothing is run; runs with another Python are passed over.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rerail.errors import RerailError, UsageError
from rerail.experiments.environments.own import OwnEnvironment, find_own
from rerail.experiments.environments.upgrades import (
    Upgrades,
    compare,
    is_exact,
    read_list,
    read_upgrades,
)
from rerail.platform.distributions import normalised
from rerail.store import Store

MOST_RUNS = 500
# `pip freeze` leaves these out, and no training imports them.
_TOOLS = frozenset(["pip", "setuptools", "wheel", "uv"])


def upgrades_asked_for(
    lists: tuple[Path, Path] | None, since: str | None, command: Sequence[str], store: Store
) -> Upgrades:
    """The changes that take back what `--upgrades` or `--since` names; none without either."""
    if lists is not None and since is not None:
        raise UsageError("--upgrades and --since ask the same in two ways: give one of them")
    if lists is not None:
        return read_upgrades(*lists)
    if since is None:
        return Upgrades((), ())
    return upgrades_since(since, command, Path.cwd(), os.environ, store)


def upgrades_since(
    since: str, command: Sequence[str], cwd: Path, environ: Mapping[str, str], store: Store
) -> Upgrades:
    own = find_own(command, cwd, environ)
    notes: list[str] = []
    path = cwd / since
    if path.is_file():
        before = dict(read_list(path, notes))
    else:
        before, told = _recorded_before(_date(since), own, store)
        notes.append(told)
    now = {name: line for name, line in own.frozen().items() if name not in _TOOLS}
    kept = {name: line for name, line in before.items() if name not in _TOOLS}
    return compare(kept, now, f"nothing was upgraded since {since}", notes)


def _date(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text} is neither a file nor a date",
            "Type a day, or a list of pip freeze: --since 2026-11-01, --since old.txt",
        ) from None
    return found.astimezone()


def _recorded_before(
    when: datetime, own: OwnEnvironment, store: Store
) -> tuple[dict[str, str], str]:
    earlier = (info for info in store.list() if info.started_unix < when.timestamp())
    newest_first = sorted(earlier, key=lambda info: -info.started_unix)
    for info in itertools.islice(newest_first, MOST_RUNS):
        try:
            recorded = store.resolve(info.id).surroundings()
        except RerailError:
            continue
        packages, interpreter = recorded.get("packages"), recorded.get("interpreter")
        if not isinstance(packages, dict) or not isinstance(interpreter, dict) or not packages:
            continue
        if interpreter.get("prefix") != str(own.prefix):
            continue
        day = datetime.fromtimestamp(info.started_unix).astimezone()
        told = f"compared with what run {info.id} recorded on {day:%Y-%m-%d at %H:%M}"
        lines = {normalised(str(n)): f"{n}=={v}" for n, v in packages.items()}
        return {name: line for name, line in lines.items() if is_exact(line)}, told
    raise UsageError(
        f"no run before {when:%Y-%m-%d %H:%M} recorded what was installed for this Python",
        "Give a list instead: --since old.txt, as pip freeze writes it",
    )
