"""Names without separators: PGPASSWORD announces a secret, compass does not."""

from __future__ import annotations

import random

import pytest
from planted import make

from rerail.privacy import Masker
from rerail.privacy.names import names_a_secret

GLUED = (
    *("PGPASSWORD", "SSHPASS", "DBPASSWORD", "MYSQLPASSWORD", "ACCESSTOKEN", "CLIENTSECRET"),
    *("HFTOKEN", "SMTPPASS", "VNCPASSWD", "AWSSECRETACCESSKEY", "MYDBPASS", "REDISPASSWORD"),
    *("GITHUBTOKEN", "APISECRET", "SSHKEY", "DBPWD", "USERPASS", "dbpassword", "sshPassphrase"),
)
# Words that no list of ours has stand in front of the ending, or behind the clear word.
UNLISTED = (
    *("LDAPBINDPW", "KEYSTOREPASS", "MQTTPASS", "AMQPPASS", "WPAPSK", "NEXUSPASS", "NEXUSTOKEN"),
    *("ARTIFACTORYTOKEN", "CARGOTOKEN", "SONARTOKEN", "NEWRELICKEY", "ANTHROPICKEY", "COHEREKEY"),
    *("NEPTUNETOKEN", "CLEARMLKEY", "MINIOSECRET", "BLOBKEY", "CSRFSECRET", "ENCRYPTKEY"),
    *(
        "TWITTERSECRET",
        "KAFKAPASS",
        "SNOWFLAKEPWD",
        "GPGPASS",
        "CERTPASS",
        "STRIPEKEY",
        "TWILIOTOKEN",
    ),
    *("HEROKUKEY", "LINODETOKEN", "HMACKEY", "JUPYTERTOKEN", "SLURMJWT", "K8STOKEN", "SAMLSECRET"),
    *("PASSWDDB", "DBPSWD", "DB_PASSWRD", "GHPAT", "GITLABPAT", "DB_KENNWORT", "TOTP_SEED"),
)
ORDINARY = (
    *("compass", "bypass", "passthrough", "passes", "tokenizer", "tokens_per_second", "secretary"),
    *("keyboard", "authors", "passenger", "encompass", "surpass", "monkey", "hotkey", "turkey"),
    *("lowpass", "getpass", "sacred", "hockey", "statekey", "prngkey", "imagekey", "backcompat"),
    *("forwardpass", "detokenize", "subtoken", "TOKENIZERS_PARALLELISM", "primarykey"),
)
PLACES = {
    "value with a quote": '{"password": "ab\\"<a14>"}',
    "JSON key pass": '{"user": "ada", "pass": "<a14>"}',
    "list": '{"passwords": ["<a14>", "<a14>"]}',
    "block": "db_password: |\n  <a14>\n",
    "table": "│ db_password │ <a14> │",
    "columns": "password    <a14>",
    "file name": "saved run_ghp_<a36>.log",
    "encrypted web token": "eyJ<a30>..<w16>.<w40>.<w22>",
    "key of PuTTY": "PuTTY-User-Key-File-3: x\nComment: y\nPrivate-Lines: 2\n<b64>\n<b44>\n",
    "password hash": "ada:$2b$12$<a53>:19000:0",
}


@pytest.mark.parametrize("name", GLUED + UNLISTED)
def test_a_glued_name_announces_its_value_everywhere(name):
    secret = make(name, "<a16>", random.Random(name)).text
    masker = Masker()
    texts = (
        masker.mask_environment({name: secret})[name],
        " ".join(Masker().mask_command(["train.py", f"--{name}", secret])),
        " ".join(Masker().mask_command(["train.py", f"--{name}={secret}"])),
        Masker().mask_text(f"export {name}={secret}"),
        Masker().mask_text(f'{{"{name}": "{secret}"}}'),
    )
    assert [text for text in texts if secret in text] == []


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_word_announces_nothing(name):
    assert not names_a_secret(name)
    assert Masker().mask_text(f"{name}=abcdefg-h12345") == f"{name}=abcdefg-h12345"


@pytest.mark.parametrize("name", ["nomadtoken", "metrickey", "blobkey"])
def test_the_value_decides_where_the_name_may_be_a_secret_s(name):
    command = ["train.py", f"--{name}", "eval_loss", f"--{name}=content"]
    assert Masker().mask_command(command) == command


# Options of trainings, with values as people type them.
OPTIONS = (
    *("--image_key=jpg", "--text-key=content", "--metric-key=val/loss", "--ckpt-key=state_dict"),
    *("--caption_key=txt", "--state_dict_key=ema", "--cache-key=abc1", "--train-tokens=15T"),
    *("--forward-pass=single", "--num_pass=twice", "--token-type=bert", "--token-mixer=attn"),
    *("--image_token=<image>", "--class-token=mean", "--stop-token=END", "--tokens=1B"),
    *("--soft-prompt-tokens=20x", "--token-dropout=mean", "--key-dim=64", "--attention-key=k"),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_of_a_training_stays_readable(option):
    name, _, value = option.partition("=")
    for command in (["train.py", option], ["train.py", name, value]):
        assert Masker().mask_command(command) == command
    settings = {name.lstrip("-"): value}
    assert Masker().mask_value(settings) == settings
    assert Masker().mask_environment(settings) == settings


@pytest.mark.parametrize(
    "name", ["AZURE_SEARCH_QUERY_KEY", "DATA_KEY", "hub-token", "token_prod", "GITHUB_TOKEN_BOT"]
)
def test_a_random_value_behind_a_name_of_trainings_is_a_secret_all_the_same(name):
    secret = make(name, "<a32>", random.Random(name)).text
    assert secret not in Masker().mask_command(["train.py", f"--{name}={secret}"])[1]
    assert secret not in Masker().mask_environment({name: secret})[name]


@pytest.mark.parametrize("form", PLACES.values(), ids=PLACES)
def test_a_secret_is_found_where_it_stands(form):
    planted = make("place", form, random.Random(form))
    masked = Masker().mask_text(planted.text)
    assert [secret for secret in planted.secrets if secret in masked] == []


def test_a_value_is_still_masked_after_thousands_of_others():
    masker = Masker()
    chance = random.Random(5)
    tokens = [make("token", "ghp_<a36>", chance).text for _ in range(1200)]
    masker.mask_text("\n".join(tokens))
    secret = make("password", "<a14>", chance).text
    masker.mask_text(f"db_password={secret}")
    assert secret not in masker.mask_text(f"connecting with {secret} now")


def test_colours_and_wide_characters_hide_no_token():
    token = make("token", "ghp_<a36>", random.Random(6)).text
    coloured = f"got {token[:12]}\x1b[31m{token[12:]}\x1b[0m now"
    assert token[12:] not in Masker().mask_text(coloured)
    wide = f"got {token} now".encode("utf-16-le")
    assert token.encode("utf-16-le") not in Masker().mask_bytes(wide)
