"""Jobs of several machines: each node's run shared beside its record, and all read as one.

`sharing_of` is for the run, `find_job` and `explain_job` for the answer. docs/jobs.md says how it
is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.jobs.explain import explain_job
    from rerail.jobs.gathering import find_job
    from rerail.jobs.membership import elastic_nodes
    from rerail.jobs.sharing import Sharing, sharing_of
    from rerail.jobs.table import node_table

__all__ = ["Sharing", "elastic_nodes", "explain_job", "find_job", "node_table", "sharing_of"]

__getattr__ = door(
    __name__,
    {
        "Sharing": "sharing",
        "elastic_nodes": "membership",
        "explain_job": "explain",
        "find_job": "gathering",
        "node_table": "table",
        "sharing_of": "sharing",
    },
)
