from __future__ import annotations

import base64
import io
import json
import string
import zipfile
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_runs import DIAGNOSIS, write_run

from rerail.diagnosis import answer_on_record as diagnosis_of
from rerail.report.masked_run import OUTPUT_TAIL_BYTES
from rerail.report.package import pack

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def some(alphabet, length):
    # Of at least two kinds of characters, as every generator of keys gives.
    return st.text(alphabet, min_size=length, max_size=length).filter(
        lambda v: len(set(v)) > 5 and any(c.isdigit() for c in v) and any(c.isalpha() for c in v)
    )


def built(form, alphabet, length):
    return some(alphabet, length).map(lambda v: form.replace("@", v))


# Each kind: the secret, and a line that shows it the way programs do.
KINDS = {
    "openai": (built("sk-proj-@", ALNUM, 40), "using key {}"),
    "anthropic": (built("sk-ant-api03-@", ALNUM, 40), "client({})"),
    "hugging face": (built("hf_@", ALNUM, 34), "logged in with {}"),
    "github": (built("ghp_@", ALNUM, 36), "remote: {}"),
    "github fine-grained": (built("github_pat_@", ALNUM, 60), "remote: {}"),
    "gitlab": (built("glpat-@", ALNUM, 20), "remote {}"),
    "aws id": (built("AKIA@", string.ascii_uppercase + string.digits, 16), "aws {}"),
    "aws secret": (some(ALNUM + "/+", 40), "aws_secret_access_key = {}"),
    "google": (built("AIza@", ALNUM, 35), "maps {}"),
    "slack": (built("xoxb-@", ALNUM, 24), "slack {}"),
    "slack webhook": (built("hooks.slack.com/services/T0/B0/@", ALNUM, 24), "POST https://{}"),
    "stripe": (built("sk_live_@", ALNUM, 24), "pay {}"),
    "wandb": (some(HEX, 40), "WANDB_API_KEY={}"),
    "jwt": (some(ALNUM, 30).map(lambda v: f"eyJhbGciOiJIUzI1NiJ9.eyJ{v}.{v[::-1]}"), "cookie {}"),
    "pypi": (built("pypi-@", ALNUM, 60), "twine {}"),
    "npm": (built("npm_@", ALNUM, 36), "npm {}"),
    "databricks": (built("dapi@", HEX, 32), "dbx {}"),
    "url password": (some(ALNUM, 12), "GET https://svc:{}@db.example.org/x"),
    "password flag": (some(ALNUM, 10), "mysql --password {} -h db"),
    "json secret": (some(ALNUM + "-_", 18), '{{"client_secret": "{}"}}'),
    "bearer": (some(ALNUM, 24), "Authorization: Bearer {}"),
    "basic": (some(ALNUM, 20), "Authorization: Basic {}"),
    "azure": (some(ALNUM + "+/", 44), "Endpoint=x;AccountKey={};y"),
    "signed url": (some(HEX, 64), "https://b.s3.example.com/k?X-Amz-Signature={}&x=1"),
    "private key": (
        some(ALNUM + "+/", 64),
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    ),
    "telegram": (some(ALNUM, 35).map(lambda v: f"123456789:AA{v[:33]}"), "bot {}"),
}


def everything_in(data: bytes) -> str:
    """All texts of a zip, and all names, and the zip's own bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [archive.read(name).decode("utf-8", "replace") for name in archive.namelist()]
    return "\n".join([*parts, data.decode("latin-1")])


def clothes_of(secret: str) -> set[str]:
    raw = secret.encode()
    encoded = base64.b64encode(raw).decode()
    return {
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        encoded,
        encoded.rstrip("="),
    }


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_planted_secret_of_any_kind_is_anywhere_in_the_zip(tmp_path_factory, data):
    planted = {kind: data.draw(form, label=kind) for kind, (form, _) in KINDS.items()}
    lines = [KINDS[kind][1].format(secret) for kind, secret in planted.items()]
    again = [f"and once more without its name: {secret}" for secret in planted.values()]
    coloured = [f"\x1b[31m{line}\x1b[0m" for line in lines]
    long_line = "x" * 590 + " " + planted["hugging face"]
    first = next(iter(planted.values()))
    diagnosis = json.loads(json.dumps(DIAGNOSIS))
    diagnosis["causes"][0]["for"] = [{"text": line[:60], "source": "output:1"} for line in lines]
    diagnosis["facts"]["last_words"] = lines[-1]
    folder = write_run(
        tmp_path_factory.mktemp("run") / ".rerail",
        command=[
            "python",
            "train.py",
            "--api-key",
            planted["password flag"],
            f"--url=https://u:{planted['url password']}@h/",
            *lines[:3],
        ],
        output="\n".join([*lines, *again, *coloured, long_line]).encode(),
        surroundings={
            "environment": {"MY_SECRET": planted["json secret"], "NOTES": lines[0]},
            "git": {"commit": "9fceb02d0ae598e95dc970b74767f19372d61af8", "remote": lines[17]},
        },
        diagnosis=diagnosis,
        message=lines[5],
    )
    text = everything_in(pack(folder, diagnosis_of(folder)).to_zip())
    for kind, secret in planted.items():
        for form in clothes_of(secret):
            assert form not in text, kind
    assert "hf_" + first not in text
    assert "9fceb02d0ae598e95dc970b74767f19372d61af8" in text


def test_people_and_places_have_one_mask_each_throughout(tmp_path):
    folder = write_run(
        tmp_path / ".rerail",
        command=["/home/ada/venv/bin/python", "/home/ada/train.py"],
        cwd="/home/ada/job",
        output=b"ada@gpu17:/home/ada/job$ reading /home/grace/data for ada\n",
        surroundings={
            "environment": {
                "USER": "ada",
                "HOME": "/home/ada",
                "HOSTNAME": "gpu17.lab.example.org",
            },
            "system": {"host": "gpu17.lab.example.org"},
        },
    )
    package = pack(folder, diagnosis_of(folder))
    files = {name: data.decode() for name, data in package.files}
    for name, text in files.items():
        for word in ("ada/", "/ada", "grace", "gpu17", "lab.example.org"):
            assert word not in text, (name, word)
    assert "/home/user-1/job" in files["configuration.json"]
    assert "/home/user-1/train.py" in files["reproduce.sh"]
    assert "host-1:/home/user-1/job$ reading /home/user-2/data for user-1" in files["output.txt"]
    assert package.masked["home folder"] > 2 and "user name" in package.masked


def test_the_zip_is_the_same_bytes_twice_and_holds_fixed_names_times_and_permissions(tmp_path):
    folder = write_run(tmp_path / ".rerail")
    one = pack(folder, diagnosis_of(folder)).to_zip()
    two = pack(folder, diagnosis_of(folder)).to_zip()
    assert one == two
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries][:2] == ["SUMMARY.md", "report.html"]
    for entry in entries:
        assert entry.date_time == (1980, 1, 1, 0, 0, 0)
        assert entry.external_attr >> 16 == 0o100644
        assert (
            "/" not in entry.filename and "\\" not in entry.filename and ".." not in entry.filename
        )


def test_a_hostile_folder_adds_no_file_and_no_path(tmp_path):
    folder = write_run(
        tmp_path / ".rerail",
        command=["../../../../tmp/evil", "a\nb; rm -rf /"],
        cwd="/x'; touch /tmp/evil; '",
        surroundings={"../../etc/passwd": "x", "git": {"commit": "x\nrm -rf /"}},
    )
    (folder.path / "..evil.json").write_text("{}")
    (folder.path / "agent").mkdir(exist_ok=True)
    (folder.path / "agent" / "1-1.stacks").write_text("raw")
    package = pack(folder, diagnosis_of(folder))
    names = [name for name, _ in package.files]
    assert names == sorted(set(names), key=names.index) and all(".." not in n for n in names)
    script = dict(package.files)["reproduce.sh"].decode()
    assert script.count("\n") == len(script.splitlines())
    assert "'/x'\"'\"'; touch /tmp/evil; '\"'\"''" in script
    assert "\nrm -rf /" not in script.replace("a\nb; rm -rf /", "")


def test_the_summary_is_one_page_with_the_command_and_the_reasons(tmp_path):
    folder = write_run(tmp_path / ".rerail", command=["python", "train.py", "--lr", "0.1"])
    summary = dict(pack(folder, diagnosis_of(folder)).files)["SUMMARY.md"].decode()
    assert summary.startswith("# A native library crashed")
    for words in (
        "python train.py --lr 0.1",
        "91 %",
        "SIGSEGV in scan",
        "pip install -U fast",
        "report.html",
    ):
        assert words in summary
    assert len(summary.splitlines()) <= 66


def test_long_output_keeps_its_beginning_and_its_end(tmp_path):
    lines = [b"%08d %s" % (i, b"y" * 90) for i in range(40_000)]
    folder = write_run(tmp_path / ".rerail", output=b"\n".join(lines) + b"\n")
    output = dict(pack(folder, diagnosis_of(folder)).files)["output.txt"].decode()
    assert output.startswith("00000000 ") and "00039999 " in output
    assert "left out]" in output and len(output) < OUTPUT_TAIL_BYTES * 1.3


@pytest.mark.parametrize("output", [b"", b"\xff\xfe\x00\x01" * 50, "höhe ✓\n".encode()])
def test_any_output_can_be_packed(tmp_path, output):
    folder = write_run(tmp_path / ".rerail", output=output)
    with zipfile.ZipFile(io.BytesIO(pack(folder, diagnosis_of(folder)).to_zip())) as archive:
        assert archive.testzip() is None
