"""Secrets out, meaning kept: an environment, an argument list or any text, before it is written.

In: names and values, or text. Out: the same with secrets replaced by `***` and a word on what
was there. A value is secret because of its name (…TOKEN, …PASSWORD), or because of its shape: a
key of a known service, a JSON web token, a private key, a password inside a URL. Promises: what
was masked cannot be got back; paths, commit ids, versions, numbers and settings are left as they
are; masking twice changes nothing more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

MASK = "***"

# A name is made of words; these words make its value a secret.
_SECRET_WORDS = frozenset(
    [
        "token",
        "tokens",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "credential",
        "credentials",
        "cred",
        "creds",
        "apikey",
        "authtoken",
        "accesskey",
        "secretkey",
        "privatekey",
        "auth",
        "authorization",
        "cookie",
        "cookies",
        "sas",
        "dsn",
        "jwt",
        "bearer",
        "netrc",
        "signature",
    ]
)
_SECRET_PAIRS = frozenset(
    [
        ("api", "key"),
        ("access", "key"),
        ("account", "key"),
        ("secret", "key"),
        ("private", "key"),
        ("signing", "key"),
        ("encryption", "key"),
        ("master", "key"),
        ("license", "key"),
        ("service", "key"),
        ("storage", "key"),
        ("ssh", "key"),
        ("session", "key"),
        ("session", "id"),
        ("client", "id"),
        ("webhook", "url"),
        ("connection", "string"),
        ("database", "url"),
        ("pass", "word"),
    ]
)
# Names that sound like a secret and are not. TOKENIZERS_PARALLELISM is the best known.
_HARMLESS_NAMES = re.compile(
    r"^(TOKENIZERS?_|.*_TOKENIZERS?($|_)|MAX_.*TOKENS|NUM_.*TOKENS|.*_(MAX|NUM|NEW)_TOKENS?$"
    r"|PWD$|OLDPWD$|SSH_AUTH_SOCK$|XAUTHORITY$|KEYBOARD|.*_KEYRING$|DBUS_SESSION_|XDG_SESSION_ID$"
    r"|AUTH_?(TYPE|METHOD|MODE)$|.*_AUTH_(TYPE|METHOD|MODE)$|SSH_ASKPASS$|GIT_ASKPASS$"
    r"|.*_TOKEN_(TYPE|COUNT|LIMIT|LEN|LENGTH|TTL|EXPIRY)$|.*_(PAD|EOS|BOS|UNK|SEP|CLS)_TOKEN$"
    r"|(PAD|EOS|BOS|UNK|SEP|CLS|MASK|SPECIAL)_TOKENS?$)",
    re.IGNORECASE,
)
# Where a name is a secret's but points to a file, the path is worth keeping.
_PATH_NAMES = re.compile(r"(_|^)(FILE|PATH|DIR|SOCK|HOME)$", re.IGNORECASE)
_HARMLESS_VALUES = re.compile(
    r"^(|0|1|true|false|yes|no|on|off|none|null|auto|disabled|enabled|-?\d{1,9}(\.\d+)?)$",
    re.IGNORECASE,
)

# (what it is, pattern). Group 1, where there is one, is what stays in front of the mask.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
    ),
    ("JSON web token", re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")),
    (
        "password in a URL",
        re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{1,30}://)[^\s/@:\"'<>*]*:[^\s/@\"'<>]+(?=@)"),
    ),
    ("token in a URL", re.compile(r"\b(https?://)[A-Za-z0-9_-]{20,}(?=@)")),
    (
        "signature in a URL",
        re.compile(
            r"([?&](?:X-Amz-(?:Signature|Credential|Security-Token)|sig|Signature|access_token"
            r"|token|api_key|apikey|key|password|secret)=)[^&\s\"'<>*]{6,}",
            re.IGNORECASE,
        ),
    ),
    ("AWS key id", re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA)[A-Z0-9]{16}\b")),
    ("GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,})")),
    ("GitLab token", re.compile(r"\bgl(?:pat|rt|dt|cbt|ptt|soat)-[\w-]{20,}")),
    ("Hugging Face token", re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}")),
    ("API key", re.compile(r"\bsk-(?:proj-|ant-|or-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}")),
    ("Stripe key", re.compile(r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    ("Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    (
        "Slack webhook",
        re.compile(r"(https://hooks\.slack\.com/(?:services|workflows)/)[\w/]{10,}"),
    ),
    ("Google key", re.compile(r"\bAIza[\w-]{35}")),
    ("Google token", re.compile(r"\bya29\.[\w-]{20,}")),
    ("npm token", re.compile(r"\bnpm_[A-Za-z0-9]{36}")),
    ("PyPI token", re.compile(r"\bpypi-[\w-]{50,}")),
    ("W&B key", re.compile(r"\b(?:local|wandb_v\d)-?_?[A-Za-z0-9_]{40,}\b")),
    ("Neptune or Comet token", re.compile(r"\beyJhcGlfYWRkcmVzcyI6[\w=/+-]{10,}")),
    (
        "authorization header",
        re.compile(
            r"\b((?:authorization|proxy-authorization)['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)\s+)"
            r"[^\s'\"*]{6,}",
            re.IGNORECASE,
        ),
    ),
    ("bearer token", re.compile(r"\b(bearer\s+)[\w.~+/=-]{16,}", re.IGNORECASE)),
    (
        "account key",
        re.compile(
            r"\b((?:AccountKey|SharedAccessKey|Password|Pwd)=)[^;\s\"'*]{4,}", re.IGNORECASE
        ),
    ),
)
# NAME=value, "name": "value" and --name value inside any text. Quoted values may hold spaces.
_ASSIGNMENT = re.compile(
    r"(?P<lead>(?:^|(?<=[\s,;{(\[?&'\"]))--?|(?:^|(?<=[\s,;{(\[?&'\"])))"
    r"(?P<name>[A-Za-z][\w.-]{1,60})"
    r"(?P<link>['\"]?\s*(?:=|:)\s*)"
    r"(?P<value>'[^'\n]*'|\"[^\"\n]*\"|[^\s,;&'\"})\]]+)",
    re.MULTILINE,
)
_FLAG_AND_VALUE = re.compile(
    r"(?P<lead>(?:^|\s)--?)(?P<name>[A-Za-z][\w-]{1,60})(?P<link>\s+)(?P<value>[^\s-]\S*)"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(name: str) -> list[str]:
    """WANDB_API_KEY, wandbApiKey and --wandb-api-key all give wandb, api, key."""
    return [word.lower() for word in _WORDS.findall(name)]


def names_a_secret(name: str) -> bool:
    """Does a variable or flag of this name hold a secret?"""
    if _HARMLESS_NAMES.match(name):
        return False
    words = words_of(name)
    if any(word in _SECRET_WORDS for word in words):
        return True
    if any(pair in _SECRET_PAIRS for pair in pairwise(words)):
        return True
    return len(words) > 1 and words[-1] in ("key", "pass", "pat")


def _is_harmless_value(value: str) -> bool:
    return bool(_HARMLESS_VALUES.match(value)) or value == MASK or value.startswith(MASK + " ")


def _looks_like_a_path(value: str) -> bool:
    return value.startswith(("/", "~/", "./", "../")) and "\n" not in value


def _entropy_bits(value: str) -> float:
    """Per character; random base64 has about 5, prose about 4, a repeated letter 0."""
    counts = {character: value.count(character) for character in set(value)}
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def _mask_value(name: str, value: str) -> tuple[str, str | None]:
    """The value to write, and what was masked in it."""
    if names_a_secret(name) and not _is_harmless_value(value):
        is_path = _looks_like_a_path(value) and (
            _PATH_NAMES.search(name) or _entropy_bits(value) < 4.5
        )
        if not is_path:
            return f"{MASK} ({len(value)} characters)", "value of " + name
    masked, what = mask_shapes(value)
    return masked, what[0] if what else None


def mask_shapes(text: str) -> tuple[str, list[str]]:
    """Replace what has the shape of a secret, whatever it is called."""
    found: list[str] = []
    for what, pattern in _SHAPES:

        def replace(match: re.Match[str], what: str = what) -> str:
            found.append(what)
            return (match[1] if match.re.groups else "") + MASK

        text = pattern.sub(replace, text)
    return text, found


def mask_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with secrets replaced; every name stays."""
    return {name: _mask_value(name, value)[0] for name, value in environ.items()}


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with secrets replaced: --token X, --token=X, TOKEN=X and shapes."""
    masked: list[str] = []
    pending: str | None = None
    for argument in arguments:
        if pending is not None and not argument.startswith("-"):
            masked.append(_mask_value(pending, argument)[0])
            pending = None
            continue
        pending = None
        name, separator, value = argument.partition("=")
        bare = name.lstrip("-")
        if separator and re.fullmatch(r"[\w.+-]+", bare) and "\n" not in argument:
            masked.append(f"{name}={_mask_value(bare, value)[0]}")
            continue
        if argument.startswith("-") and names_a_secret(bare):
            pending = bare
        masked.append(mask_text(argument)[0])
    return masked


def mask_text(text: str) -> tuple[str, list[str]]:
    """Any text with secrets replaced, and what they were, in no particular order."""
    text, found = mask_shapes(text)

    def replace(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        quote = value[0] if value[:1] in "'\"" and value[-1:] == value[:1] else ""
        inner = value[1:-1] if quote and len(value) > 1 else value
        if not _is_worth_masking(name, inner):
            return match[0]
        found.append("value of " + name)
        return f"{match['lead']}{name}{match['link']}{quote}{MASK}{quote}"

    text = _ASSIGNMENT.sub(replace, text)
    text = _FLAG_AND_VALUE.sub(replace, text)
    return text, found


def _is_worth_masking(name: str, value: str) -> bool:
    """In text a colon follows many words: "token: expected 3" is no secret, "token: s3cr3t" is.

    A word of small letters under a weak name is left alone; passwords are masked in any case.
    """
    if not names_a_secret(name) or _is_harmless_value(value) or _looks_like_a_path(value):
        return False
    if value.startswith(("$", "<", "{")):
        return False  # a reference to a secret, not the secret
    strong = {"password", "passwd", "passphrase", "pwd", "secret"}
    if strong & set(words_of(name)):
        return len(value) >= 3
    if len(value) < 8:
        return False
    return bool(re.search(r"\d", value)) or _entropy_bits(value) > 3.5
