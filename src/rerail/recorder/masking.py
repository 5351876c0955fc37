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

from rerail.recorder.secret_shapes import SHAPES

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
# Where a name is a secret's but points to a file, the path is worth keeping. A path has two parts
# at the least and none of the signs of base64: a random secret may well begin with a slash.
_PATH_NAMES = re.compile(r"(_|^)(FILE|PATH|DIR|SOCK|HOME|CREDENTIALS|NETRC)$", re.IGNORECASE)
_PATH = re.compile(r"^(~|\.{1,2})?(/[\w.@ -]{1,64}){2,}/?$")
_HARMLESS_VALUES = re.compile(
    r"^(|0|1|true|false|yes|no|on|off|none|null|auto|disabled|enabled|-?\d{1,9}(\.\d+)?)$",
    re.IGNORECASE,
)

# NAME=value, then "name": "value", then --name value, inside any text. Quoted values may hold
# spaces. One after the other, because in `client: key=…` the colon would hide what follows.
_VALUE = r"""(?P<value>'[^'\n]*'|"[^"\n]*"|[^\s,;&'"})\]]+)"""
_BEFORE = r"""(?:^|(?<=[\s,;{(\[?&'"]))"""


def _assignment(sign: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<lead>{_BEFORE}-{{0,2}})(?P<name>[A-Za-z][\w.-]{{1,60}})"
        rf"(?P<link>['\"]?\s*{sign}\s*){_VALUE}",
        re.MULTILINE,
    )


_FLAG_AND_VALUE = re.compile(
    rf"(?P<lead>(?:^|(?<=\s))--?)(?P<name>[A-Za-z][\w-]{{1,60}})(?P<link>\s+)(?!-){_VALUE}",
    re.MULTILINE,
)
_ASSIGNMENTS = (_assignment("="), _assignment(":"), _FLAG_AND_VALUE)
# Most lines of a log hold none of these: this is what makes a long text affordable.
_MAY_NAME_A_SECRET = re.compile(
    "|".join(sorted({*_SECRET_WORDS, "key", "pass", "pat", "session", "client", "url", "string"})),
    re.IGNORECASE,
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
    return bool(_PATH.match(value))


def _entropy_bits(value: str) -> float:
    """Per character; random base64 has about 5, prose about 4, a repeated letter 0."""
    counts = {character: value.count(character) for character in set(value)}
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def _mask_value(name: str, value: str) -> tuple[str, str | None]:
    """The value to write, and what was masked in it."""
    is_file = _looks_like_a_path(value) and _PATH_NAMES.search(name)
    if names_a_secret(name) and not is_file and not _is_harmless_value(value):
        return f"{MASK} ({len(value)} characters)", "value of " + name
    masked, what = mask_shapes(value)
    return masked, what[0] if what else None


def mask_shapes(text: str) -> tuple[str, list[str]]:
    """Replace what has the shape of a secret, whatever it is called."""
    found: list[str] = []
    lowered = text.lower()
    for shape in SHAPES:
        if not any(hint in lowered for hint in shape.hints):
            continue

        def replace(match: re.Match[str], what: str = shape.what) -> str:
            found.append(what)
            return (match[1] if match.re.groups else "") + MASK

        text = shape.pattern.sub(replace, text)
    return text, found


def mask_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with secrets replaced; every name stays."""
    return {name: _mask_value(name, value)[0] for name, value in environ.items()}


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with secrets replaced: --token X, --token=X, TOKEN=X and shapes."""
    masked: list[str] = []
    pending: str | None = None
    before = ""
    for argument in arguments:
        is_script = bool(re.match(r"^-[a-z]*c$", before))  # sh -c "…": a text, not a value
        before = argument
        if pending is not None and not argument.startswith("-"):
            masked.append(_mask_value(pending, argument)[0])
            pending = None
            continue
        pending = None
        name, separator, value = argument.partition("=")
        bare = name.lstrip("-")
        if separator and not is_script and re.fullmatch(r"[\w.+-]+", bare):
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

    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if _MAY_NAME_A_SECRET.search(line):
            for pattern in _ASSIGNMENTS:
                line = pattern.sub(replace, line)
            lines[number] = line
    return "".join(lines), found


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
