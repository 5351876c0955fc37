"""One message when a run dies, stands still or ends, or when something is proven.

`notifier_of` reads `--notify` and RERAIL_NOTIFY; the `Notifier` tells. docs/notify.md has each
receiver, docs/design/what-may-a-notification-do.md what a receiver can and cannot do to a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.notify.notifier import Notifier, notifier_of

__all__ = ["Notifier", "notifier_of"]

__getattr__ = door(__name__, {"Notifier": "notifier", "notifier_of": "notifier"})
