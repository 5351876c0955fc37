"""What secrets look like, whatever they are called: one row per kind.

Each row has a word for what it is, small-letter hints without which the pattern cannot match (so
that most texts cost one search per hint), and the pattern. Where a pattern has a group, the group
stays and what follows it is the secret: the host of a URL is worth keeping, its password is not.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Shape(NamedTuple):
    what: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _shape(what: str, hints: str, pattern: str, flags: int = 0) -> Shape:
    return Shape(what, tuple(hints.split()), re.compile(pattern, flags))


SHAPES: tuple[Shape, ...] = (
    Shape(
        "private key",
        ("private key",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
    ),
    _shape("JSON web token", "eyj", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _shape(
        "password in a URL",
        "://",
        r"\b([A-Za-z][A-Za-z0-9+.-]{1,30}://)[^\s/@:\"'<>*]*:[^\s/@\"'<>]+(?=@)",
    ),
    _shape("token in a URL", "://", r"\b(https?://)[A-Za-z0-9_-]{20,}(?=@)"),
    _shape(
        "signature in a URL",
        "=",
        r"([?&](?:X-Amz-(?:Signature|Credential|Security-Token)|sig|Signature|access_token"
        r"|token|api_key|apikey|key|password|secret)=)[^&\s\"'<>*]{6,}",
        re.IGNORECASE,
    ),
    _shape(
        "AWS key id",
        "akia asia agpa aida aroa aipa anpa anva",
        r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA)[A-Z0-9]{16}\b",
    ),
    _shape(
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,})",
    ),
    _shape("GitLab token", "gl", r"\bgl(?:pat|rt|dt|cbt|ptt|soat)-[\w-]{20,}"),
    _shape("Hugging Face token", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    # A capital or a digit: sk-learn-and-something-longer is a package.
    _shape("API key", "sk-", r"\bsk-(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{20,}"),
    _shape("Stripe key", "k_live_ k_test_", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _shape(
        "Slack webhook",
        "hooks.slack.com",
        r"(https://hooks\.slack\.com/(?:services|workflows)/)[\w/]{10,}",
    ),
    _shape("Google key", "aiza", r"\bAIza[\w-]{35}"),
    _shape("Google token", "ya29.", r"\bya29\.[\w-]{20,}"),
    _shape("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    _shape("PyPI token", "pypi-", r"\bpypi-[\w-]{50,}"),
    _shape("W&B key", "local- wandb_v", r"\b(?:local-|wandb_v\d_)[A-Za-z0-9_]{40,}\b"),
    _shape("Neptune token", "eyjhcglfywrkcmvzcyi6", r"\beyJhcGlfYWRkcmVzcyI6[\w=/+-]{10,}"),
    _shape(
        "authorization header",
        "authorization",
        r"\b((?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+)"
        r"[^\s'\"*]{6,}",
        re.IGNORECASE,
    ),
    _shape("bearer token", "bearer", r"\b(bearer\s+)[\w.~+/=-]{16,}", re.IGNORECASE),
    _shape(
        "account key",
        "accountkey= sharedaccesskey= password= pwd=",
        r"\b((?:AccountKey|SharedAccessKey|Password|Pwd)=)[^;\s\"'*]{4,}",
        re.IGNORECASE,
    ),
)
