"""Ray's workers change their title with every task: what of it says who the process is.

In: a command line as it stands in /proc, and the one known before. Out: the one to keep. A worker
is `ray::IDLE`, then `ray::Server.__init__`, `ray::Server.update`, `ray::Server`, thousands of times
an hour; who it is is `ray::Server`, and that stays once it is known.
"""

from __future__ import annotations

from collections.abc import Sequence

_MARK = "ray::"
_IDLE = "ray::IDLE"


def is_ray_title(command: Sequence[str]) -> bool:
    return len(command) == 1 and command[0].startswith(_MARK)


def settled(command: list[str], before: Sequence[str]) -> list[str]:
    """`command` unless it is a title of Ray's; of those, the actor or the task without its method.

    A named actor's title has the name once only (`ray::trainer:Server.__init__`), so it is kept.
    """
    if not is_ray_title(command):
        return command
    words = command[0].split()
    title = words[0] if words else _MARK
    who = title.rpartition(".")[0] or title
    was = before[0] if is_ray_title(before) else ""
    is_less = who == _IDLE or was.endswith(f":{who.removeprefix(_MARK)}")
    return [was] if was and was != _IDLE and is_less else [who]
