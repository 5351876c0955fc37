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
TABLE = "secret in a table"
NOTIFIED_ADDRESS = "address of a notification"
# A command that has none of these in it holds no password of a program.
PROGRAMS = (
    *("curl", "sshpass", "mysql", "mariadb", "login", "twine", "mongo", "kinit", "redis-cli"),
    *("zip", "sqlcmd", "ldap", "7z", "openssl", "smbclient", "htpasswd", "sqlplus", "ngrok"),
)

_SECRET_WORDS = frozenset(
    {"secret", "secrets", "password", "passwd", "passphrase", "passcode"}
    | {"pwd", "credential", "credentials", "cred", "creds", "apikey", "authtoken", "accesskey"}
    | {"secretkey", "privatekey", "auth", "authorization", "cookie", "cookies", "sas", "dsn"}
    | {
        "jwt",
        "bearer",
        "netrc",
        "signature",
        "passwort",
        "psk",
        "passwrd",
        "pswd",
        "kennwort",
        "totp",
        "sessionid",
        "csrftoken",
    }
)
# A training has many of them; at the end of a name, `token` is a secret's.
_COUNTED_WORDS = frozenset({"token", "tokens"})
_SECRET_PAIRS = frozenset(
    {("webhook", "url"), ("connection", "string"), ("database", "url"), ("pass", "word")}
    | {
        ("session", "id"),
        ("client", "id"),
        ("recovery", "code"),
        ("rerail", "notify"),
        ("client", "key"),
    }
    | {(first, "key") for first in ("api", "access", "account", "secret", "private", "signing")}
    | {(first, "key") for first in ("encryption", "master", "license", "service", "storage")}
    | {(first, "key") for first in ("ssh", "session")}
)
# Their values are secrets also in running text, whatever they look like.
_STRONG_WORDS = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "apikey"}
    | {"credential", "credentials", "accesskey", "secretkey", "privatekey", "authorization"}
    | {"passwort", "passwrd", "pswd", "kennwort"}
)
_STRONG_PAIRS = (["api", "key"], ["access", "key"], ["secret", "key"], ["private", "key"])
# Whole names that are a secret's as a flag or a variable, and ordinary words elsewhere.
_SECRET_FLAGS = frozenset({"pass", "pw", "pat"})
# In running text they are ordinary words too; there the value has to look like a password.
PASSWORD_NAMES = frozenset({"pass", "pw", "pwd"})
# Flags whose value is a secret where it is a URL: whoever knows it can write to the receiver.
_VERSION = re.compile(r"v?\d{1,4}(?:\.\d{1,4}){1,3}(?:(?:\.?(?:dev|post)|a|b|rc)\d{1,4})?")
_ADDRESS_FLAGS = frozenset({"notify"})
_HARMLESS_NAMES = re.compile(
    r"^(TOKENIZERS?_|.*_TOKENIZERS?($|_)|MAX_.*TOKENS|NUM_.*TOKENS|.*_(MAX|NUM|NEW)_TOKENS?$"
    r"|PWD$|OLDPWD$|SSH_AUTH_SOCK$|XAUTHORITY$|KEYBOARD|.*_KEYRING$|DBUS_SESSION_|XDG_SESSION_ID$"
    r"|AUTH_?(TYPE|METHOD|MODE)$|.*_AUTH_(TYPE|METHOD|MODE)$|SSH_ASKPASS$|GIT_ASKPASS$"
    r"|(.*_)?TOKENS?_PER_.*|.*_TOKEN_(TYPE|COUNT|LIMIT|LEN|LENGTH|TTL|EXPIRY|IDS?)$|TOKEN_(TYPE|IDS?)"
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
# What stands beside or below the name of a secret in a table that describes it.
_OF_TABLES = re.compile(
    r"(?i:values?|types?|names?|keys?|count|description|default|user(?:name)?|email|role|text"
    r"|number|float|double|boolean|integer|list|dict|object|path|file|env|environment|changed"
    r"|unchanged|hidden|present|absent|valid|active|inactive|failed|ok|n/a|stored|rotated"
    r"|(?:var)?char\(\d{1,9}\)|[A-Za-z]{1,60}(?:Error|Exception|Field|Str))"
)
MASKED = re.compile(  # also the marks of `blank` and of the agent
    r"\[(?:…|\.\.\.)\]|"
    r"\[secret(?:-\d+)?\]\**|\*{3,}(?: .*)?|\[(?:email|address)-\d+\]|(?:host|user)-\d+"
)
_SHORTEST_OF_ORDINARY = 16
_HEX = re.compile(r"[0-9a-f]{16,}")
# Without one of these no name is a secret's.
TELLING = re.compile(
    r"token|secret|pass|pwd|pw|pswd|cred|key|auth|cookie|sas|dsn|jwt|bearer|netrc|signature|webhook"
    r"|kennwort|recovery|totp|psk|session|client|connection|database|pat|notify",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Inside a word they mean a secret, whatever stands around them.
_CLEAR_WORDS = (
    *("password", "passwd", "passwrd", "pswd", "passphrase", "passcode", "passwort", "kennwort"),
    *("apikey", "authtoken"),
)
_AFTER_CLEAR_WORDS = ("less", "s", "ed")  # passwordless
# At the end of a word they mean a secret, but for a few ordinary words (compass, sacred).
_ENDINGS = ("secret", "pass", "pwd", "pw", "jwt", "psk", "cred", "creds", "credentials")
# At the end of a word they mean a secret if a known word stands in front; of another word that is
# not ordinary (monkey, subtoken) the value decides.
_OPEN_ENDINGS = ("token", "key")
_KNOWN_ENDINGS = (*_OPEN_ENDINGS, "pat")
_ORDINARY_FRONTS = {
    "pass": (
        *("by", "com", "encom", "sur", "tres", "over", "under", "forward", "backward", "high"),
        *(
            "low",
            "band",
            "all",
            "one",
            "two",
            "three",
            "first",
            "second",
            "third",
            "last",
            "single",
        ),
        *("get", "multi", "each", "per", "full", "pre", "post", "is", "test", "n", "num"),
    ),
    "cred": ("sa", "massa"),
    "token": (
        *("sub", "de", "re", "pre", "multi", "per", "next", "last", "first", "max", "min", "num"),
        *("new", "pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "start", "end"),
        *("image", "audio", "video", "prompt", "input", "output", "text", "word", "stop", "all"),
        *("eot", "class", "pool"),
    ),
    "key": (
        *("mon", "tur", "hot", "don", "whis", "hoc", "joc", "lac", "primary", "foreign", "dict"),
        *("state", "hash", "cache", "sort", "index", "lookup", "sub", "by", "any", "no", "prng"),
        *("rng", "random", "group", "map", "image", "text", "label", "input", "output", "data"),
        *(
            "metric",
            "feature",
            "column",
            "param",
            "config",
            "query",
            "missing",
            "unexpected",
            "per",
        ),
        *(
            "smo",
            "mic",
            "dic",
            "hus",
            "jer",
            "ma",
            "mu",
            "ho",
            "po",
            "lo",
            "la",
            "fla",
            "fun",
            "ris",
        ),
    ),
}
GLUED_WORDS = (
    *("access", "account", "admin", "api", "app", "auth", "aws", "azure", "bot", "client", "cloud"),
    *("comet", "consumer", "database", "db", "deploy", "docker", "email", "encryption", "ftp"),
    *("gcp", "gh", "git", "github", "gitlab", "hf", "http", "hub", "id", "imap", "jwt", "kaggle"),
    *("ldap", "login", "mail", "master", "mongo", "mssql", "my", "mysql", "npm", "oauth", "openai"),
    *("oracle", "pg", "pgsql", "postgres", "private", "proxy", "pypi", "rabbitmq", "redis"),
    *("refresh", "registry", "repo", "root", "s3", "secret", "service", "session", "sftp"),
    *("shared", "signing", "slack", "smtp", "sql", "ssh", "storage", "sudo", "svn", "telegram"),
    *("user", "vault", "vnc", "vpn", "wandb", "web", "webhook", "wifi"),
)
_GLUED_CLEAR = re.compile(
    rf"(?P<before>[a-z]{{0,40}}?)(?P<word>{'|'.join(_CLEAR_WORDS)})"
    rf"(?!(?:{'|'.join(_AFTER_CLEAR_WORDS)})$)(?P<after>[a-z]{{0,40}})"
)
_GLUED_KNOWN = re.compile(
    rf"(?P<known>(?:{'|'.join(GLUED_WORDS)}){{1,4}}?)(?P<ending>{'|'.join(_KNOWN_ENDINGS)})"
)
_GLUED_ENDING = re.compile(rf"(?P<before>[a-z]{{1,40}}?)(?P<ending>{'|'.join(_ENDINGS)})")
_GLUED_OPEN = re.compile(rf"(?P<before>[a-z]{{1,40}})(?P<ending>{'|'.join(_OPEN_ENDINGS)})")
_LAST_WORD = re.compile(rf"(?:{'|'.join(GLUED_WORDS)})$")
_LONGEST_GLUED = 40


def words_of(name: str) -> list[str]:
    """WANDB_API_KEY, wandbApiKey and --wandb-api-key all give wandb, api, key; PGPASSWORD gives
    pg, password."""
    return [part for word in _WORDS.findall(name) for part in _unglued(word.lower())]


def _unglued(word: str) -> list[str]:
    """Return the parts of a word that holds a secret's name, or else the word alone."""
    if word in _SECRET_WORDS or len(word) > _LONGEST_GLUED:
        return [word]
    if clear := _GLUED_CLEAR.fullmatch(word):
        return [part for part in clear.groups() if part]
    if known := _GLUED_KNOWN.fullmatch(word):
        last = _LAST_WORD.search(known["known"])  # awsaccesskey: the pair of access and key decides
        before = known["known"][: last.start()] if last else ""
        return [part for part in (before, last[0] if last else "", known["ending"]) if part]
    ending = _GLUED_ENDING.fullmatch(word)
    if ending and ending["before"] not in _ORDINARY_FRONTS.get(ending["ending"], ()):
        return [ending["before"], ending["ending"]]
    return [word]


@functools.lru_cache(maxsize=1024)  # a log says the same names over and over
def names_a_secret(name: str) -> bool:
    """Does a variable, key or flag of this name hold a secret, or is it one that may?"""
    if TELLING.search(name) is None:
        return False
    return _surely_names_a_secret(name) or may_name_a_secret(name)


@functools.lru_cache(maxsize=1024)
def _surely_names_a_secret(name: str) -> bool:
    words = words_of(name)
    if _is_harmless(name) or _ends_ordinarily(words):
        return False
    if any(word in _SECRET_WORDS for word in words) or words[-1:] == ["token"]:
        return True
    if any(pair in _SECRET_PAIRS for pair in pairwise(words)):
        return True
    if len(words) > 1 and words[-1] == "key":
        return words[-2] in GLUED_WORDS
    return len(words) > 1 and words[-1] in ("pass", "pat", "pw", "cred")


@functools.lru_cache(maxsize=1024)
def may_name_a_secret(name: str) -> bool:
    """Whether a name is like a secret's, so that the value decides: STRIPEKEY, token_mixer."""
    words = words_of(name)
    if _is_harmless(name) or _surely_names_a_secret(name):
        return False
    if not _COUNTED_WORDS.isdisjoint(words) or (len(words) > 1 and words[-1] in _OPEN_ENDINGS):
        return True
    match = _GLUED_OPEN.fullmatch(words[-1]) if words else None
    return match is not None and match["before"] not in _ORDINARY_FRONTS[match["ending"]]


def _is_harmless(name: str) -> bool:
    return _HARMLESS_NAMES.match(name.replace("-", "_")) is not None


def _ends_ordinarily(words: list[str]) -> bool:
    """image_key and forward-pass are of a training, like imagekey and forwardpass."""
    return len(words) > 1 and words[-2] in _ORDINARY_FRONTS.get(words[-1], ())


def is_secret_value(name: str, value: str, is_certain: bool = True) -> bool:
    """Whether the value behind this name has to go.

    `is_certain`: the name is a flag, a variable or a key, not a word of running text, where
    `token: expected` follows as easily as a token.
    """
    bare = name.lstrip("-")
    is_address = is_certain and bare.lower() in _ADDRESS_FLAGS
    is_flag = is_certain and bare.lower() in _SECRET_FLAGS
    if not (is_address or is_flag or names_a_secret(bare)):
        return not is_certain and bare.lower() in PASSWORD_NAMES and looks_like_a_password(value)
    is_certain = is_certain and not may_name_a_secret(bare)
    value = value.strip()
    if _SAYS_NOTHING.fullmatch(value) or MASKED.fullmatch(value):
        return False
    if is_address:
        return "://" in value
    if not is_certain and _PROSE.fullmatch(value):
        return False
    if _PATH.match(value) and (not is_certain or _PATH_NAMES.search(bare)):
        return False
    if _ends_ordinarily(words_of(bare)):  # query_key may be a secret all the same
        return len(value) >= _SHORTEST_OF_ORDINARY and is_random(value)
    is_strong = is_strong_name(bare)
    if not is_strong and _VERSION.fullmatch(value):
        return False  # of a package that is called pyjwt or tokenizers
    if is_certain or is_strong:
        return is_certain or len(value) >= 3
    has_digit = any(c.isdigit() for c in value)
    return len(value) >= 8 and (has_digit or entropy_bits(value) > 3.5)


@functools.lru_cache(maxsize=1024)
def is_strong_name(name: str) -> bool:
    """Whether its values are secrets also in running text, whatever they look like."""
    words = words_of(name)
    return not _STRONG_WORDS.isdisjoint(words) or words[-2:] in _STRONG_PAIRS


def is_ordinary_word(value: str) -> bool:
    """Whether a word behind a secret's name says something about it and is not its value."""
    return any(p.fullmatch(value) for p in (_SAYS_NOTHING, _PROSE, _OF_TABLES, MASKED))


def looks_like_a_password(value: str) -> bool:
    """Of a value behind `-p`: three sorts of characters, none of the signs of a path or a port."""
    if len(value) < 6 or any(c in value for c in "/=,") or value.count(".") > 1:
        return False
    sorts = (str.isdigit, str.islower, str.isupper, lambda c: not c.isalnum() and c not in "-_.:")
    found = sum(any(sort(c) for c in value) for sort in sorts)
    return found >= 3 or any(c in value for c in "!@#$%^&*")


def is_key_like(value: str) -> bool:
    """Whether a word of running text can only be a key: long, with three sorts of characters."""
    if len(value) < 10 or not value.isascii() or any(c in value for c in "./:"):
        return False
    return all(any(map(sort, value)) for sort in (str.isdigit, str.islower, str.isupper))


def is_random(value: str, least_share: float = 0.4) -> bool:
    """Whether a word is no name of anything: its sorts of characters alternate, or it is hex.

    `least_share`: how many of its characters follow one of another sort. Of random letters and
    digits three in five do; of ResNet50Backbone fewer than two in five.
    """
    if _HEX.fullmatch(value):
        return not (value.isdigit() or value.isalpha())
    sorts = [c.isdigit() + 2 * c.islower() + 4 * c.isupper() for c in value]
    switches = sum(one != other for one, other in pairwise(sorts))
    return is_key_like(value) and switches >= least_share * len(value)


def entropy_bits(value: str) -> float:
    """Per character; random base64 has about 5, prose about 4, a repeated letter 0."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())
