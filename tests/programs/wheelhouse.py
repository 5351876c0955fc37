"""Small packages as wheels, and a virtual environment that has some of them: for tests."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

GOOD = "def use():\n    return 'fine'\n"
FAULTY = "import os\n\n\ndef use():\n    os.abort()\n"
SCRIPT = "import sys\n\n\ndef main():\n    import runpy\n    sys.argv = sys.argv[1:]\n"
SCRIPT += "    runpy.run_path(sys.argv[0], run_name='__main__')\n"


def make_wheel(
    house: Path,
    name: str,
    version: str,
    code: str = GOOD,
    requires: Sequence[str] = (),
    script: str = "",
    more: dict[str, str] | None = None,
) -> Path:
    """`script`: a console script that runs the program which it is given. `more`: other files."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        **(more or {}),
        f"{name}/__init__.py": f"__version__ = {version!r}\n{code}",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        files[f"{name}/launch.py"] = SCRIPT
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {name}.launch:main\n"
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    wheel = house / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def make_environment(uv: str, folder: Path, house: Path, requirements: Sequence[str]) -> Path:
    """A virtual environment of the user's, with these packages. Returns its Python."""
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    words = [uv, "pip", "install", "-q", "--no-index", "--find-links", str(house)]
    subprocess.run([*words, "--python", str(python), *requirements], check=True)
    return python
