"""Secrets out of everything that is written down, names as well out of what leaves the machine.

`Masker` masks on the way in, for the recorder; `redaction.Redactor` on the way out, for page and
package. Both know secrets from one table (`shapes`). docs/design/what-may-leave-the-machine.md says
what stands where, and why.
"""

from rerail.privacy.arguments import secrets_of
from rerail.privacy.masking import Masker, blank
from rerail.privacy.output import OutputMasker, mask_file

__all__ = ["Masker", "OutputMasker", "blank", "mask_file", "secrets_of"]
