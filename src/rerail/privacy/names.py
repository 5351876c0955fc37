"""Which names announce a secret, and which values behind such a name are none.

In: a name (of a variable, a flag, a key) and a value. Out: whether the value has to be masked.
Settings that only sound like secrets (TOKENIZERS_PARALLELISM, MAX_NEW_TOKENS, pad_token) and values
that say nothing (true, none, 512, a path under …_FILE) stay readable.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from itertools import pairwise

# Kinds of secrets that more than the table speaks of.
SECRET_NAME = "value of a secret name"
PRIVATE_KEY = "private key"
URL_LOGIN = "login in a URL"
PROGRAM = "password of a program"
NOTIFIED_ADDRESS = "address of a notification"

_SECRET_WORDS = frozenset(
    {"token", "tokens", "secret", "secrets", "password", "passwd", "passphrase", "passcode"}
    | {"pwd", "credential", "credentials", "cred", "creds", "apikey", "authtoken", "accesskey"}
    | {"secretkey", "privatekey", "auth", "authorization", "cookie", "cookies", "sas", "dsn"}
    | {"jwt", "bearer", "netrc", "signature", "passwort"}
)
_SECRET_PAIRS = frozenset(
    {("webhook", "url"), ("connection", "string"), ("database", "url"), ("pass", "word")}
    | {("session", "id"), ("client", "id"), ("rerail", "notify")}
    | {(first, "key") for first in ("api", "access", "account", "secret", "private", "signing")}
    | {(first, "key") for first in ("encryption", "master", "license", "service", "storage")}
    | {(first, "key") for first in ("ssh", "session")}
)
# Their values are secrets also in running text, whatever they look like.
_STRONG_WORDS = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "apikey"}
    | {"credential", "credentials", "accesskey", "secretkey", "privatekey", "authorization"}
    | {"passwort"}
)
_STRONG_PAIRS = (["api", "key"], ["access", "key"], ["secret", "key"], ["private", "key"])
# Whole names that are a secret's as a flag or a variable, and ordinary words elsewhere.
_SECRET_FLAGS = frozenset({"pass", "pw", "pat"})
# Flags whose value is a secret where it is a URL: whoever knows it can write to the receiver.
_VERSION = re.compile(r"v?\d{1,4}(?:\.\d{1,4}){1,3}(?:(?:\.?(?:dev|post)|a|b|rc)\d{1,4})?")
_ADDRESS_FLAGS = frozenset({"notify"})
_HARMLESS_NAMES = re.compile(
    r"^(TOKENIZERS?_|.*_TOKENIZERS?($|_)|MAX_.*TOKENS|NUM_.*TOKENS|.*_(MAX|NUM|NEW)_TOKENS?$"
    r"|PWD$|OLDPWD$|SSH_AUTH_SOCK$|XAUTHORITY$|KEYBOARD|.*_KEYRING$|DBUS_SESSION_|XDG_SESSION_ID$"
    r"|AUTH_?(TYPE|METHOD|MODE)$|.*_AUTH_(TYPE|METHOD|MODE)$|SSH_ASKPASS$|GIT_ASKPASS$"
    r"|.*_TOKEN_(TYPE|COUNT|LIMIT|LEN|LENGTH|TTL|EXPIRY|IDS?)$|TOKEN_(TYPE|IDS?)"
    r"|.*_(PAD|EOS|BOS|UNK|SEP|CLS)_TOKEN(_IDS?)?$"
    r"|(PAD|EOS|BOS|UNK|SEP|CLS|MASK|SPECIAL)_TOKENS?(_IDS?)?$)",
    re.IGNORECASE,
)
# Where a name is a secret's but points to a file, the path is worth keeping. A path has two parts
# at the least and none of the signs of base64: a random secret may well begin with a slash.
_PATH_NAMES = re.compile(r"(_|-|^)(FILE|PATH|DIR|SOCK|HOME|CREDENTIALS|NETRC)$", re.IGNORECASE)
_PATH = re.compile(r"^(~|\.{1,2})?(/[\w.@ -]{1,64}){2,}/?$")
_SAYS_NOTHING = re.compile(
    r"(?i:|none|null|nil|true|false|yes|no|on|off|auto|disabled|enabled|-?\d{1,9}(?:\.\d+)?)"
    r"|\$\{[A-Za-z_]\w*\}|\$[A-Z_][A-Z0-9_]*"  # a reference to a secret, not the secret
)
# What follows the name of a secret in prose, or in the definition of a program's options.
_PROSE = re.compile(
    r"(?i:undefined|empty|missing|not|is|was|required|invalid|expired|unset|set|and|or|for|the|a"
    r"|an|to|in|of|str|int|bool|bytes|optional|string|expected|x+|[^\w\s]+|\$\{?\w+\}?|<[^<>]*>?"
    r"|\{\w*\}?|masked|redacted|bearer|basic|digest|negotiate|token)"
)
MASKED = re.compile(  # also the marks of `blank` and of the agent
    r"\[(?:…|\.\.\.)\]|"
    r"\[secret(?:-\d+)?\]\**|\*{3,}(?: .*)?|\[(?:email|address)-\d+\]|(?:host|user)-\d+"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(name: str) -> list[str]:
    """WANDB_API_KEY, wandbApiKey and --wandb-api-key all give wandb, api, key."""
    return [word.lower() for word in _WORDS.findall(name)]


@functools.lru_cache(maxsize=1024)  # a log says the same names over and over
def names_a_secret(name: str) -> bool:
    """Does a variable, key or flag of this name hold a secret?"""
    if _HARMLESS_NAMES.match(name):
        return False
    words = words_of(name)
    if any(word in _SECRET_WORDS for word in words):
        return True
    if any(pair in _SECRET_PAIRS for pair in pairwise(words)):
        return True
    return len(words) > 1 and words[-1] in ("key", "pass", "pat", "pw")


def is_secret_value(name: str, value: str, is_certain: bool = True) -> bool:
    """Whether the value behind this name has to go.

    `is_certain`: the name is a flag, a variable or a key, not a word of running text, where
    `token: expected` follows as easily as a token.
    """
    bare = name.lstrip("-")
    is_address = is_certain and bare.lower() in _ADDRESS_FLAGS
    is_flag = is_certain and bare.lower() in _SECRET_FLAGS
    if not (is_address or is_flag or names_a_secret(bare)):
        return False
    value = value.strip()
    if _SAYS_NOTHING.fullmatch(value) or MASKED.fullmatch(value):
        return False
    if is_address:
        return "://" in value
    if not is_certain and _PROSE.fullmatch(value):
        return False
    if _PATH.match(value) and (not is_certain or _PATH_NAMES.search(bare)):
        return False
    words = words_of(bare)
    is_strong = not _STRONG_WORDS.isdisjoint(words) or words[-2:] in _STRONG_PAIRS
    if not is_strong and _VERSION.fullmatch(value):
        return False  # of a package that is called pyjwt or tokenizers
    if is_certain or is_strong:
        return is_certain or len(value) >= 3
    has_digit = any(c.isdigit() for c in value)
    return len(value) >= 8 and (has_digit or entropy_bits(value) > 3.5)


def looks_like_a_password(value: str) -> bool:
    """Of a value behind `-p`: three sorts of characters, none of the signs of a path or a port."""
    if len(value) < 6 or any(c in value for c in "/=,") or value.count(".") > 1:
        return False
    sorts = (str.isdigit, str.islower, str.isupper, lambda c: not c.isalnum() and c not in "-_.:")
    found = sum(any(sort(c) for c in value) for sort in sorts)
    return found >= 3 or any(c in value for c in "!@#$%^&*")


def entropy_bits(value: str) -> float:
    """Per character; random base64 has about 5, prose about 4, a repeated letter 0."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
