"""Whose log is a file, by its name?

In: names of files, such as rank_3.log, log_3.txt, node-2/attempt_0/3/stderr.log,
slurm-48113_7.out, worker-7.txt, gpu12_local3.log. Out: `NamedFor`: a rank, or a host and a place
on it, or neither (a launcher's own log). What the file says of itself comes before its name; see
`rank_survey`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.platform.patterns import linear

_LOCAL = linear(
    r"(?i)(?P<host>[\w.-]*\w)[-_.](?:local(?:_?rank)?|gpu|lr)[-_.]?(?P<local>\d{1,3})(?:\D|$)"
)
_RANK = linear(
    r"(?i)(?:^|[-_.])(?:global_?rank|rank|worker|task|proc(?:ess)?|log|trainer|pod|replica"
    r"|r)[-_.]?(?P<rank>\d{1,7})"
    r"(?:[-_.](?:of[-_.]?\d+|std(?:err|out)|log|out|err|txt))*$"
)
_ARRAY = linear(r"(?i)^slurm-\d+[_.](?P<rank>\d{1,7})(?:\.(?:out|err|log|txt))*$")
_TORCHRUN = linear(r"(?:^|/)attempt_\d+/(?P<local>\d{1,3})/(?:std(?:err|out)\.log|error\.json)$")
_FOLDER_RANK = linear(r"(?i)(?:^|/)(?:rank|worker|task|proc|trainer)[-_.]?(?P<rank>\d{1,7})/[^/]+$")
_HOST = linear(
    r"(?i)^(?:dmesg|events|journal|syslog|kern)[-_.](?P<host>[\w.-]+?)\.(?:txt|log|out)$"
)
_NODE = linear(
    r"(?i)^(?P<host>[\w-]*\d[\w-]*)(?:\.(?:agent|launch|node|torchrun|srun))?\.(?:log|out|err|txt)$"
)


@dataclass(frozen=True)
class NamedFor:
    rank: int | None = None
    host: str = ""
    local: int | None = None

    @property
    def is_rank(self) -> bool:
        return self.rank is not None or self.local is not None


def named_for(path: str) -> NamedFor:
    base = path.rpartition("/")[2]
    if found := _TORCHRUN.search(path):
        folders = path[: found.start()].strip("/").split("/")
        host = next((f for f in reversed(folders) if re.search(r"\d", f)), folders[-1])
        return NamedFor(None, host, int(found.group("local")))
    if found := _ARRAY.match(base):
        return NamedFor(int(found.group("rank")))
    if found := _HOST.match(base):
        return NamedFor(host=found.group("host"))
    if (found := _LOCAL.match(base)) and re.search(r"\d", found.group("host")):
        return NamedFor(None, found.group("host"), int(found.group("local")))
    if found := _RANK.search(base.rpartition(".")[0] or base):
        return NamedFor(int(found.group("rank")), _folder_host(path))
    if found := _FOLDER_RANK.search(path):
        return NamedFor(int(found.group("rank")))
    if found := _NODE.match(base):
        return NamedFor(host=found.group("host"))
    return NamedFor()


def _folder_host(path: str) -> str:
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return folder if re.search(r"\d", folder) else ""
