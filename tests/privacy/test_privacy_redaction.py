from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.privacy.finding import find_secrets
from rerail.privacy.redaction import Redactor


def redactor_for(*texts, user=None, host=None, home=None):
    redactor = Redactor()
    environment = {k: v for k, v in (("USER", user), ("HOME", home)) if v}
    redactor.names.add_environment(environment)
    if host:
        redactor.names.add_host(host)
    for text in texts:
        redactor.learn_value(text)
    redactor.finish_learning()
    return redactor


def mask(text, **names):
    return redactor_for(text, **names).mask(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter2", "hunter2"),
        ("login --password hunter2 now", "hunter2"),
        ('{"api_key": "abc def ghi"}', "abc def ghi"),
        ("'client_secret': 'p@ss:word'", "p@ss:word"),
        ("export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
        ("GET https://ada:lovelace1@hub.example.org/x", "lovelace1"),
        ("clone https://oauth2token99@git.example.org/x", "oauth2token99"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H 'Authorization: Bearer abcdefgh.12'", "abcdefgh.12"),
        ("https://s3.example.com/x?X-Amz-Signature=deadbeefdeadbeef&y=1", "deadbeefdeadbeef"),
        ("DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==;", "Zm9vYmFy"),
        ("token: 8f14e45fceea167a5a36dedd4bea2543", "8f14e45fceea167a5a36dedd4bea2543"),
    ],
)
def test_named_and_shaped_secrets_go(text, secret):
    masked = mask(text)
    assert secret not in masked
    assert "[secret-" in masked or "***" in masked


@pytest.mark.parametrize(
    "text",
    [
        "epoch 3 step 1200 loss 0.1234 tokens/s 12345 token_acc=0.9",
        "max_tokens=512 pad_token=<pad> eos_token='</s>' num_tokens: 1024",
        "Missing key(s) in state_dict: encoder.layers.0.self_attn.in_proj_weight",
        "Unexpected key: module.encoder.layer.11.output.LayerNorm.weight",
        "tokenizer: bert-base-uncased-v2-2024",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "nvidia-cublas-cu12==12.4.5.8 at 0x7f12deadbeef01",
        "password is required, token was rejected, secret: None, api_key=None",
        "RuntimeError: CUDA error at /home/root/x.cu:12",
        "git@github.com:torch/torch.git",
    ],
)
def test_ordinary_lines_of_a_training_log_stay_as_they_are(text):
    assert mask(text) == text


def test_a_secret_that_one_line_announces_is_masked_on_all_lines_and_in_other_clothes():
    secret = "s3cr3t/with+odd=chars"
    redactor = redactor_for(["--db-password", secret])
    clothes = [
        secret,
        quote(secret, safe=""),
        json.dumps({"x": secret}),
        base64.b64encode(secret.encode()).decode(),
    ]
    for text in clothes:
        masked = redactor.mask(f"connect with {text} failed")
        assert text.strip('{"x: }') not in masked and "[secret-1]" in masked


def test_the_same_secret_has_the_same_mask_and_another_one_another():
    redactor = redactor_for("password=hunter2 token=abcd1234efgh5678", "secret=other-one-9")
    assert (
        redactor.mask("hunter2, hunter2 and other-one-9") == "[secret-1], [secret-1] and [secret-3]"
    )


def test_a_secret_cut_off_by_a_bounded_text_leaves_no_beginning():
    redactor = redactor_for("token=hf_abcdefghijklmnopqrstuvwx")
    assert "hf_abcdefg" not in redactor.mask("the line ended at hf_abcdefghijk")
    assert "hf_abcdefg" not in redactor.mask("the line ended at hf_abcdefghijk …")


def test_an_announced_plain_word_is_masked_where_it_is_announced_only():
    redactor = redactor_for("password=training")
    assert redactor.mask("password=training") == "password=[secret-1]"
    assert redactor.mask("the training ended") == "the training ended"


def test_keys_of_objects_announce_their_values_and_nothing_else_changes():
    value = {"env": {"HF_TOKEN": "shh-shh", "EPOCHS": "3"}, "n": 3, "none": None, "t": ("a", 1)}
    redactor = redactor_for(value)
    masked = redactor.mask_value(value)
    assert masked == {
        "env": {"HF_TOKEN": "[secret-1]", "EPOCHS": "3"},
        "n": 3,
        "none": None,
        "t": ("a", 1),
    }


def test_people_and_machines():
    text = "/home/ada/run: ada@lab.example.org on gpu17.lab.example.org, adapter, ada_run3, ADA"
    masked = mask(text, user="ada", host="gpu17.lab.example.org", home="/home/ada")
    assert "ada@" not in masked and "/home/user-1/run" in masked
    assert "adapter" in masked and "user-1_run3" in masked
    assert "gpu17" not in masked and "host-1" in masked


def test_a_home_in_an_unusual_place_and_a_second_user():
    masked = mask("/data/people/ada/x /home/grace/y /Users/grace/z", home="/data/people/ada")
    assert masked == "/home/user-1/x /home/user-2/y /Users/user-2/z"


def test_generic_accounts_are_nobody():
    text = "root /root/x /home/ubuntu/y localhost"
    assert mask(text, user="root", host="localhost", home="/root") == text


def test_a_private_key_over_several_lines_goes_line_by_line():
    body = "MIIEpAIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9Oi"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    redactor = redactor_for(f"cat id_rsa\n{key}\nok")
    assert body not in redactor.mask(key)
    assert body not in redactor.mask(f"  {body}")


def test_counts_say_what_kind_never_what():
    redactor = redactor_for("password=hunter2", user="ada")
    redactor.mask("password=hunter2 of ada")
    assert redactor.counts == {"value of a secret name": 1, "user name": 1}


@given(st.text(max_size=300))
def test_masking_twice_changes_nothing_more(text):
    redactor = redactor_for(text, user="ada", host="gpu17")
    once = redactor.mask(text)
    assert redactor.mask(once) == once


@given(st.text(max_size=400))
def test_spans_lie_inside_the_text_and_do_not_overlap(text):
    last = 0
    for secret in find_secrets(text.encode()):
        assert last <= secret.start < secret.end <= len(text.encode())
        last = secret.end


@pytest.mark.parametrize(
    "text",
    [
        "connect to 10.1.2.3:29500 failed",
        "MASTER_ADDR=10.1.2.3",
        "[c10d] The client socket has timed out (10.1.2.3, 29500); host 10.1.2.3",
        "tcp://10.1.2.3",
        "inet 10.1.2.3/24 brd",
        "nfs 192.168.7.9 is gone",
        "[2001:db8:85a3::8a2e:370:7334]:29500",
        "peer fe80::1ff:fe23:4567:890a lost",
        "listening on 2001:0db8:0000:0000:0000:ff00:0042:8329",
        "rank 3 at fd00::12 left",
    ],
)
def test_addresses_go(text):
    masked = mask(text)
    assert "[address-1]" in masked
    assert not re.search(r"\d+\.\d+\.\d+\.\d+|\w+:\w*:\w*:|fd00|fe80", masked), masked


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-curand-cu12==10.3.5.147 and version 1.2.3.4, v2.0.1.9",
        "127.0.0.1:8080 and 0.0.0.0:6006 and ::1 and [::]:29500",
        "at 12:30:45, std::vector, c10::Error, a::b, torch::jit::c10::d",
        "shape 1.2.3 x 4.5.6 ratio 1:2:3:4",
        "libcudnn.so.8.9.7.29",
    ],
)
def test_versions_times_and_names_of_code_are_no_addresses(text):
    assert mask(text) == text


def test_an_address_has_the_same_mask_wherever_it_stands():
    redactor = redactor_for("connect to 10.1.2.3:29500", {"MASTER_ADDR": "fd00::77"})
    masked = redactor.mask("10.1.2.3 refused; node (10.1.2.3) and 10.1.2.30, fd00::77, fd00::778")
    assert masked.startswith("[address-1] refused; node ([address-1]) and 10.1.2.30, [address-2],")
    assert redactor.mask("10.1.2.3:29500") == "[address-1]:29500"


def test_masks_of_the_recorder_keep_their_numbers():
    redactor = Redactor({3: ("zebra77crossing", "x"), 7: ("other-one-9x", "x")})
    redactor.finish_learning()
    text = "[secret-3]***** zebra77crossing [secret-7] other-one-9x password=new-one-5"
    assert redactor.mask(text) == "[secret-3] [secret-3] [secret-7] [secret-7] password=[secret-8]"


def test_a_hardware_address_and_the_host_of_the_master_are_masked():
    redactor = Redactor()
    redactor.names.add_environment({"MASTER_ADDR": "lovelace-node7.example.org"})
    text = "lovelace-node7 up, ether 02:42:ac:11:00:02, took 12:30:45"
    redactor.learn_text(text)
    redactor.finish_learning()
    assert redactor.mask(text) == "host-1 up, ether [address-1], took 12:30:45"
