"""uv, which builds environments: where it is, what it is told, what it answers.

In: arguments for uv. Out: what it would change, or did change, in an environment; its reason where
it cannot. Promises: it never downloads a Python, never builds from source (a build can take hours
and write into the project's folder), and reaches the same servers as pip: indexes, certificates and
proxies are those that pip is set up for, unless uv itself is set up for others.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOW_TO_GET_UV = "uv is not installed: pip install 'rerail[environments]'"
_MOST_SECONDS = 1800.0
_MOST_REASON = 600  # characters
_MOVED = re.compile(r"^ ([-+~]) (\S+?)==(\S+)", re.MULTILINE)
# pip's settings and the variables by which uv takes the same. Several values stand apart by
# blanks in pip's file, by blanks or commas in uv's variables.
_INDEXES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", ","),
}
# How pip reaches a server, and the variables by which uv takes the same. A certificate is set in
# `connection_variables`, because uv has one variable for a file and another one for a folder.
_CONNECTIONS = {
    "client-cert": ("SSL_CLIENT_CERT",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "proxy": ("HTTPS_PROXY", "HTTP_PROXY"),
}
# The variables from which requests, the library inside pip, takes a certificate.
_CERTIFICATES_OF_REQUESTS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class EnvironmentNotBuilt(Exception):
    """Why an environment cannot be built, as a sentence; the resolver's in its own words."""


@dataclass(frozen=True)
class Moves:
    """What an installation takes out of an environment, and what it puts in: versions by name."""

    removed: dict[str, str]
    added: dict[str, str]


def find_uv() -> str | None:
    """The one that was installed with rerail, else the one on PATH."""
    if importlib.util.find_spec("uv") is not None:
        import uv

        try:
            return str(uv.find_uv_bin())
        except OSError:
            pass
    return shutil.which("uv")


class Uv:
    """uv with the user's own indexes, certificates and proxies."""

    def __init__(self, path: str, environ: Mapping[str, str], prefix: Path) -> None:
        self._path = path
        self._environ = {
            **environ,
            **index_variables(environ, prefix),
            **connection_variables(environ, prefix),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }

    def make_environment(self, folder: Path, python: str, seconds: float) -> None:
        self._run(("venv", "--no-project", "--clear", "--python", python, str(folder)), seconds)

    def install(
        self,
        folder: Path,
        requirements: Sequence[str],
        seconds: float,
        *,
        is_dry: bool = False,
        with_dependencies: bool = True,
    ) -> Moves:
        words = ["pip", "install", "--python", str(folder / "bin" / "python"), "--no-build"]
        words += ["--dry-run"] * is_dry + ["--no-deps"] * (not with_dependencies)
        return _moves(self._run([*words, "--", *requirements], seconds))

    def find_python(self, version: str) -> str | None:
        """One that is installed; pyenv's are looked up by hand, since its shims refuse to run."""
        root = Path(self._environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        folders = [root / "versions" / version, *sorted(root.glob(f"versions/{version}.*"))]
        for folder in reversed(folders):
            if (folder / "bin" / "python").is_file():
                return str(folder / "bin" / "python")
        try:
            return self._run(("python", "find", "--no-project", version), 60.0, "stdout").strip()
        except EnvironmentNotBuilt:
            return None

    def _run(self, words: Sequence[str], seconds: float, wanted: str = "stderr") -> str:
        seconds = min(seconds, _MOST_SECONDS)
        try:
            done = subprocess.run(
                [self._path, *words],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(seconds, 1.0),
            )
        except subprocess.TimeoutExpired:
            raise EnvironmentNotBuilt(f"uv did not end within {seconds:.0f} s") from None
        except OSError as error:
            raise EnvironmentNotBuilt(f"uv cannot be started: {error}") from None
        if done.returncode:
            raise EnvironmentNotBuilt(_reason(done.stderr))
        return str(getattr(done, wanted))


def _moves(told: str) -> Moves:
    found: dict[str, dict[str, str]] = {"-": {}, "+": {}, "~": {}}
    for sign, name, version in _MOVED.findall(told):
        found[sign][name] = version
    return Moves(found["-"], found["+"])


def _reason(told: str) -> str:
    """Its own words, as one sentence, without what it says of the environment before."""
    at = told.find("error:")
    if at < 0:
        at = told.find("×")  # how earlier ones mark it
    text = " ".join(told[max(at, 0) :].split()).removeprefix("error: ").strip("×╰─▶ ")
    text = text.partition(" hint: ")[0].replace(" cause: ", ": ")
    return text[:_MOST_REASON].rstrip(".") or "uv failed without a word"


def index_variables(environ: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Return the variables that tell uv which indexes pip asks; none where uv has its own."""
    given = _pip_settings(environ, prefix)
    found = {}
    for setting, (variable, separator) in _INDEXES.items():
        if given.get(setting, "").split():
            found[variable] = separator.join(given[setting].split())
    if not found.keys() <= environ.keys():
        # As pip does it: the best version of all its indexes. uv alone takes the first index that
        # knows the package.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in found.items() if name not in environ}


def connection_variables(environ: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Return the variables that give uv the certificates and proxies of pip; none that are set.

    Without a certificate of its own, pip asks the system's store since its version 24.2.
    """
    given = _pip_settings(environ, prefix)
    found = {
        variable: " ".join(given[setting].split())
        for setting, variables in _CONNECTIONS.items()
        if given.get(setting, "").strip()
        for variable in variables
    }
    named = (given.get("cert"), *(environ.get(name) for name in _CERTIFICATES_OF_REQUESTS))
    certificate = next((value for value in named if value), None)
    if not environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"}:
        if certificate is None:
            found["UV_SYSTEM_CERTS"] = "true"
        else:
            is_folder = Path(certificate).is_dir()
            found["SSL_CERT_DIR" if is_folder else "SSL_CERT_FILE"] = certificate
    known = {name.upper() for name in environ}  # proxies are set in lower case as often
    return {name: value for name, value in found.items() if name not in known}


def _pip_settings(environ: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Return pip's settings by name: a variable wins over a file, a later file over an earlier."""
    given: dict[str, str] = {}
    for file in _pip_files(environ, prefix):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                given.update(parser.items(section))
    for name, value in environ.items():
        if name.startswith("PIP_"):
            given[name[len("PIP_") :].lower().replace("_", "-")] = value
    return given


def _pip_files(environ: Mapping[str, str], prefix: Path) -> list[Path]:
    home = Path(environ.get("HOME") or Path.home())
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", settings / "pip" / "pip.conf"]
    files.append(prefix / "pip.conf")
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    return [*files, Path(named)] if named else files
