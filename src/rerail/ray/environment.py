"""The runtime environment that has Ray start its workers under the flight recorder.

In: where the runs go, and what else the workers' environment holds. Out: a dictionary for
`ray.init(runtime_env=…)`, an actor's `options` or Ray Train's `RunConfig(worker_runtime_env=…)`.
Promises: where rerail is not there on a node, or a worker is recorded already because the whole
cluster runs below `rerail run`, the worker starts as it would have.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rerail
from rerail.errors import UsageError
from rerail.platform.own_process import own_process
from rerail.ray.explaining import home_of_workers, tell_of_deaths
from rerail.store import Store

# Each of these makes an interpreter of its own, which is `python` once Ray has activated it.
_OWN_PYTHON = ("pip", "uv", "conda")
_IN_A_CONTAINER = ("image_uri", "container")

# $p runs the worker. The recorder itself runs in the interpreter that has rerail.
_SCRIPT = """\
p={python}; command -v "$p" >/dev/null || p=python3
if [ -z "${{RERAIL_AGENT:-}}" ] && [ -x {recorder} ] && [ -d {package} ]; then
exec {words} {home} {job} -- {given} "$@"; fi; exec {given} "$@\""""


def runtime_env(
    more: Mapping[str, Any] | None = None, *, home: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """`more` is the runtime_env that the job has anyway; what this gives contains it.

    The runs go to `home`, else to where this driver is recorded, else RERAIL_HOME, else `.rerail`
    here; a node that does not see this folder keeps them in one of the same name.
    """
    environment = dict(more or {})
    for name in _IN_A_CONTAINER:
        if name in environment:
            raise UsageError(
                f"workers in a container ({name}) are not recorded from outside it",
                "Put rerail into the image and start it there: docs/ray.md.",
            )
    place = home_of_workers(home, for_reading=False)
    Store(place)
    job = f"ray-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    has_own_python = any(name in environment for name in _OWN_PYTHON)
    recorder, *words = own_process("rerail.ray.worker")
    script = _SCRIPT.format(
        python="python" if has_own_python else shlex.quote(sys.executable),
        recorder=shlex.quote(recorder),
        package=shlex.quote(str(Path(rerail.__file__).parent)),
        words=shlex.join([recorder, *words]),
        home=shlex.quote(str(place)),
        job=job,
        given=environment.get("py_executable") or '"$p"',
    )
    environment["py_executable"] = f"sh -c {shlex.quote(script)} rerail-ray"
    tell_of_deaths(place, job)
    return environment
