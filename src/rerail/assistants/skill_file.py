"""The Agent Skill: a page that tells an assistant how to get from a dead run to a proven fix.

In: the folder of an assistant's skills. Out: `rerail/SKILL.md` in it. Promises: a page that
somebody has changed is not overwritten.
"""

from __future__ import annotations

from pathlib import Path

import rerail
from rerail.errors import UsageError
from rerail.platform.user_files import advice_on, write_user_file

_NAME = "SKILL.md"


def skill_text() -> str:
    return (Path(rerail.__file__).parent / "skill" / _NAME).read_text(encoding="utf-8")


def install_skill(folder: Path) -> Path:
    """Where it is now."""
    target = folder / "rerail" / _NAME
    text = skill_text()
    try:
        if target.exists() and not target.is_file():
            raise UsageError(
                f"{target} is not a regular file: not written",
                "Remove it, or name another folder with --install DIR.",
            )
        if target.exists() and target.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageError(
                f"{target} is another version: not overwritten", "Remove it, and install it again."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        write_user_file(target, text.encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror}", advice_on(error, target, "--install DIR")
        ) from None
    return target
