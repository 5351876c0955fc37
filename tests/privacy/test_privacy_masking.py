"""Secrets go, everything else stays."""

from __future__ import annotations

import base64
import json
import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.privacy import Masker, blank
from rerail.store import RunFolder, Store
from rerail.store.store import fingerprint


def mask_environment(environ: dict[str, str]) -> dict[str, str]:
    return Masker().mask_environment(environ)


def mask_arguments(arguments: list[str]) -> list[str]:
    return Masker().mask_command(arguments)


def mask_text(text: str) -> tuple[str, list[str]]:
    masker = Masker()
    return masker.mask_text(text), list(masker.known.kinds.values())


# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def random_text(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=size, max_size=size)


def made_jwt(payload: str) -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}))
    return ".".join((head, part(json.dumps({"sub": payload})), "c2lnbmF0dXJl"))


# Strategies for secrets of each shape; what is in them must be nowhere in what is written.
SHAPES: dict[str, st.SearchStrategy[str]] = {
    "AWS key id": random_text(string.ascii_uppercase + string.digits, 16).map(lambda s: "AKIA" + s),
    "GitHub token": random_text(ALNUM, 36).map(lambda s: "ghp_" + s),
    "GitHub fine-grained": random_text(ALNUM + "_", 60).map(lambda s: "github_pat_" + s),
    "GitLab": random_text(ALNUM, 20).map(lambda s: "glpat-" + s),
    "Hugging Face": random_text(ALNUM, 34).map(lambda s: "hf_" + s),
    "OpenAI": random_text(ALNUM, 48).map(lambda s: "sk-7" + s),
    "OpenAI project": random_text(ALNUM, 48).map(lambda s: "sk-proj-X" + s),
    "Slack": random_text(string.digits, 12).map(lambda s: f"xoxb-{s}-{s}-abcdefABCDEF"),
    "Google": random_text(ALNUM, 35).map(lambda s: "AIza" + s),
    "npm": random_text(ALNUM, 36).map(lambda s: "npm_" + s),
    "JWT": random_text(ALNUM, 20).map(made_jwt),
    "PyPI": random_text(ALNUM, 60).map(lambda s: "pypi-" + s),
}


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_known_shape_is_masked_wherever_it_stands(shape: str) -> None:
    @unhurried
    @given(SHAPES[shape])
    def check(secret: str) -> None:
        environ = mask_environment({"INNOCUOUS": secret, "LINE": f"using {secret} now"})
        assert secret not in "".join(environ.values())
        assert secret not in " ".join(mask_arguments(["run", "--x", secret, f"a={secret}"]))
        text, found = mask_text(f"loading with {secret}, then step 12 of 900")
        assert secret not in text
        assert found
        assert text.endswith("then step 12 of 900")

    check()


@unhurried
@given(
    st.sampled_from(
        [
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "MY_SECRET",
            "NEPTUNE_API_TOKEN",
            "COMET_API_KEY",
            "GOOGLE_CREDENTIALS_JSON",
            "AZURE_STORAGE_KEY",
            "SLACK_WEBHOOK_URL",
            "DATABASE_URL",
            "SMTP_PASS",
            "githubToken",
            "apiKey",
        ]
    ),
    st.text(alphabet=ALNUM + "+/=_-", min_size=8, max_size=60),
)
def test_a_telling_name_masks_any_value(name: str, value: str) -> None:
    if value.isdigit():
        return
    environ = mask_environment({name: value})
    assert value not in environ[name]
    assert environ[name].startswith("[secret-")
    flag = "--" + name.lower().replace("_", "-")
    assert value not in " ".join(mask_arguments(["train.py", f"--{name}={value}"]))
    assert value not in " ".join(mask_arguments(["train.py", f"{name}={value}"]))
    if not value.startswith("-") and "_" in name:
        assert value not in " ".join(mask_arguments(["train.py", flag, value, "--lr", "1"]))


HARMLESS = {
    "PATH": "/usr/local/bin:/usr/bin:/home/u/.venv/bin",
    "OMP_NUM_THREADS": "8",
    "KMP_AFFINITY": "granularity=fine,compact,1,0",
    "KMP_DUPLICATE_LIB_OK": "TRUE",
    "TOKENIZERS_PARALLELISM": "false",
    "MAX_NEW_TOKENS": "512",
    "PAD_TOKEN": "<pad>",
    "GIT_COMMIT": "7475446c0ffee1234567890abcdef1234567890a",
    "BUILD_SHA": "d41d8cd98f00b204e9800998ecf8427e",
    "SSH_AUTH_SOCK": "/tmp/ssh-XXXXabcdEFGH/agent.4711",
    "XAUTHORITY": "/home/u/.Xauthority",
    "PWD": "/home/u/experiments/2026-03",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/u/keys/service.json",
    "AWS_SHARED_CREDENTIALS_FILE": "/home/u/.aws/credentials",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NVIDIA_VISIBLE_DEVICES": "GPU-8f2c3b1a-1111-2222-3333-444455556666",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
    "NCCL_DEBUG": "INFO",
    "LD_LIBRARY_PATH": "/opt/conda/lib",
    "KEYBOARD": "us",
    "MONKEY": "banana",
    "WANDB_PROJECT": "two-tower",
    "HF_HOME": "/data/hf",
    "HTTPS_PROXY": "http://proxy.example.com:3128",
    "MASTER_ADDR": "node-01",
    "PIP_INDEX_URL": "https://pypi.org/simple",
    "AUTHOR": "someone",
    "XDG_SESSION_ID": "c2",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus",
    "EMPTY_TOKEN": "",
    "USE_AUTH_TOKEN": "true",
}


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_settings_paths_and_commits_stay(name: str) -> None:
    assert mask_environment({name: HARMLESS[name]}) == {name: HARMLESS[name]}


def test_urls_keep_everything_but_the_secret() -> None:
    masked = mask_environment(
        {
            "A": "postgres://user:s3cr3t@db.example.com:5432/runs",
            "B": "https://ghx0123456789abcdefghij@example.com/repo.git",
            "C": "https://bucket.s3.amazonaws.com/x?X-Amz-Signature=0123456789abcdef&part=2",
            "D": "https://u:p%40ss@host/simple https://x:y@other/simple",
        }
    )
    masked = {name: re.sub(r"\[secret-\d+\]", "***", value) for name, value in masked.items()}
    assert masked["A"] == "postgres://***@db.example.com:5432/runs"
    assert masked["B"] == "https://***@example.com/repo.git"
    assert masked["C"] == "https://bucket.s3.amazonaws.com/x?X-Amz-Signature=***&part=2"
    assert masked["D"] == "https://***@host/simple https://***@other/simple"


def test_a_private_key_goes_whole_even_if_it_is_cut_short() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n"
    for text in (key + "-----END OPENSSH PRIVATE KEY-----\nafter", key):
        masked, found = mask_text("before " + text)
        assert "b3BlbnNzaC1rZXk" not in masked
        assert set(found) == {"private key"}
        assert masked.startswith("before [secret-1]")


def test_arguments_with_spaces_around_and_shell_strings() -> None:
    masked = mask_arguments(
        ["bash", "-c", "HF_TOKEN=abcd1234efgh python train.py --password 'open sesame' --lr 0.1"]
    )
    assert "abcd1234efgh" not in masked[2]
    assert "open sesame" not in masked[2]
    assert "--lr 0.1" in masked[2]
    assert mask_arguments(["train.py", "--token", "--lr", "0.1"]) == [
        "train.py",
        "--token",
        "--lr",
        "0.1",
    ]


LOG_LINES = [
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)",
    "Special tokens have been added in the vocabulary",
    "KeyError: 'token_type_ids'",
    "token: expected 3, found 4",
    'File "/a/auth/token.py", line 3, in get_token',
    "Unexpected key(s) in state_dict: 'encoder.weight'",
    "loss=0.1234 lr=1e-4 tokens=8192 max_tokens=4096",
    "AssertionError: password",
    "OMP: Error #15: Initializing libomp.so.5, but found libiomp5.so already initialized.",
    "requires sk-learn-contrib-imbalanced-ensemble",
    "commit 7475446c0ffee1234567890abcdef1234567890a",
    "tokenizer.model_max_length: 1000000000000000019884624838656",
    r"Compute Failed\nKey:       fn-b5e41b0d-cd3c-4cf9-b7bf-f497901989e9\nState: x",
    "wandb: syncing run a1b2c3d4, key encoder.layers.0.weight, path=/data/Runs2026/x1",
]


@pytest.mark.parametrize("line", LOG_LINES)
def test_lines_of_a_log_stay(line: str) -> None:
    assert mask_text(line) == (line, [])


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("wandb: api_key=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
        ('{"password": "hunter2", "user": "u"}', "hunter2"),
        ("Authorization: Bearer abc.def-ghi_jkl", "abc.def"),
        ("curl -H 'Authorization: token abcdefgh12345678'", "abcdefgh12345678"),
        ("DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFy+/==;x=1", "Zm9vYmFy"),
        ("export SECRET_KEY='a b c d e'", "a b c d e"),
    ],
)
def test_secrets_in_text_go(line: str, secret: str) -> None:
    text, found = mask_text(line)
    assert secret not in text
    assert found


@unhurried
@given(st.text(max_size=200))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once, _ = mask_text(text)
    assert mask_text(once)[0] == once


@unhurried
@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=60), max_size=5))
def test_every_name_stays_and_masking_twice_changes_nothing_more(environ: dict[str, str]) -> None:
    once = mask_environment(environ)
    assert set(once) == set(environ)
    assert mask_environment(once) == once


@unhurried
@given(st.lists(st.text(max_size=40), max_size=6))
def test_the_number_of_arguments_stays(arguments: list[str]) -> None:
    assert len(mask_arguments(arguments)) == len(arguments)


@unhurried
@given(random_text(HEX, 40))
def test_a_commit_id_under_an_innocuous_name_stays(commit: str) -> None:
    assert mask_environment({"GIT_SHA": commit})["GIT_SHA"] == commit
    assert mask_text(f"at commit {commit}")[0] == f"at commit {commit}"


@pytest.mark.parametrize(
    ("command", "secret"),
    [
        (["curl", "-u", "ada:hunter22", "https://x"], "hunter22"),
        (["curl", "-uada:hunter22", "https://x"], "hunter22"),
        (["curl", "--user", "ada:pa ss;w&rd", "https://x"], "pa ss;w&rd"),
        (["sshpass", "-p", "hunter", "ssh", "-p", "22", "node"], "hunter"),
        (["sshpass", "-phunter22", "ssh", "node"], "hunter22"),
        (["python", "train.py", "-p", "Tr0ub4dor&3"], "Tr0ub4dor&3"),
        (["mysql", "-u", "ada", "-phunter22", "runs"], "hunter22"),
        (["docker", "login", "-u", "ada", "-p", "hunter", "hub"], "hunter"),
        (["redis-cli", "-a", "hunter22", "ping"], "hunter22"),
        (["train.py", "--pass", "hunter22"], "hunter22"),
        (["train.py", "--pw=hunter22"], "hunter22"),
        (["sh", "-c", "sshpass -p hunter22 ssh node; curl -u ada:hunter22 x"], "hunter22"),
        (["sh", "-c", "machine x login ada password hunter22"], "hunter22"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_programs_with_ways_of_their_own(command: list[str], secret: str) -> None:
    masked = mask_arguments(command)
    assert len(masked) == len(command)
    assert secret not in " ".join(masked)
    assert masked[0] == command[0]
    assert mask_arguments(masked) == masked


@pytest.mark.parametrize(
    "command",
    [
        ["ssh", "-p", "2222", "node"],
        ["mkdir", "-p", "/data/Runs2026/x"],
        ["docker", "run", "-p", "8080:80", "image"],
        ["train.py", "-p", "resnet50", "--pass", "2", "--tokens", "512"],
        ["train.py", "-p", "0.1", "-p", "config"],
        ["curl", "-u", "ada", "https://example.org/a"],
        ["torchrun", "--nproc_per_node", "8", "--rdzv_id", "job-20260102-1030"],
    ],
    ids=" ".join,
)
def test_ordinary_command_lines_stay(command: list[str]) -> None:
    assert mask_arguments(command) == command


def test_a_command_is_blanked_at_once_and_shown_soon(tmp_path) -> None:
    secret = "hf_" + "a7" * 17
    assert blank(["python", "train.py", "--lr", "0.1", secret])[-1] == "[…]"
    assert blank(["python", "train.py", "--lr", "0.1"]) == [
        "python",
        "train.py",
        "--lr",
        "0.1",
    ]
    writer = Store(tmp_path).create_run(
        ["train.py", "--x", secret, "ResNet50-Baseline-2"], "/", {}, False
    )
    assert secret not in (writer.path / "run.json").read_text()
    writer.update_info(root_pid=1)
    command = RunFolder(writer.path).info().command
    assert command == ["train.py", "--x", "[secret-1]", "ResNet50-Baseline-2"]
    assert RunFolder(writer.path).private().command[2] == secret


def test_a_forked_child_gives_no_numbers_of_its_own(tmp_path) -> None:
    """Surroundings are collected in a child: two values must not get one number."""
    import os

    masker = Masker()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, masker.mask_text("password=hunter22").encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 100) == b"password=[secret]"


def test_two_commands_that_differ_in_a_password_are_one_command() -> None:
    first, second = (fingerprint(["x", "--password", p], "/") for p in ("hunter22", "zebra77"))
    assert first == second != fingerprint(["x", "--epochs", "3"], "/")


def test_the_version_of_a_package_is_no_secret_whatever_the_package_is_called() -> None:
    packages = {"PyJWT": "2.8.0", "tokenizers": "0.21.1", "google-auth": "2.36.0rc1"}
    assert Masker().mask_value({"packages": packages}) == {"packages": packages}
    assert Masker().mask_value({"password": "2.8.0"})["password"].startswith("[secret")
