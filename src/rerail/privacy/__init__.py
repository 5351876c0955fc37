"""Secrets out of everything that is written down, names as well out of what leaves the machine.

`Masker` masks on the way in, for the recorder; `redaction.Redactor` on the way out, for page and
package. Both know secrets from one table (`shapes`). docs/design/what-may-leave-the-machine.md says
what stands where, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.privacy.arguments import secrets_of
    from rerail.privacy.masking import Masker, blank
    from rerail.privacy.output import OutputMasker, mask_file
    from rerail.privacy.redaction import Redactor, SecretRedactor

__all__ = [
    "Masker",
    "OutputMasker",
    "Redactor",
    "SecretRedactor",
    "blank",
    "mask_file",
    "secrets_of",
]

__getattr__ = door(
    __name__,
    {
        "Masker": "masking",
        "OutputMasker": "output",
        "Redactor": "redaction",
        "SecretRedactor": "redaction",
        "blank": "masking",
        "mask_file": "output",
        "secrets_of": "arguments",
    },
)
