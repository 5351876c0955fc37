"""What is kept of the titles that Ray gives its workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.recorder.tree.ray_titles import is_ray_title, settled
from rerail.records import ProcessRecord
from rerail.wording import process_in_words, ray_worker_in_words


def after(*titles: str) -> list[str]:
    known = ["python", "default_worker.py"]
    for title in titles:
        known = settled([title], known)
    return known


def test_an_actor_is_known_by_its_class_whatever_it_does() -> None:
    assert after("ray::IDLE") == ["ray::IDLE"]
    assert after("ray::IDLE", "ray::Server.__init__") == ["ray::Server"]
    assert after("ray::Server.update", "ray::IDLE", "ray::Server") == ["ray::Server"]


def test_the_name_of_a_named_actor_stays_although_ray_says_it_once() -> None:
    assert after("ray::main:Server.__init__", "ray::Server.update") == ["ray::main:Server"]


def test_a_worker_that_gets_another_task_is_known_by_that() -> None:
    assert after("ray::tokenize", "ray::IDLE", "ray::merge") == ["ray::merge"]


def test_other_commands_stay_as_they_are() -> None:
    command = ["python", "train.py", "ray::IDLE"]
    assert settled(command, ["ray::Server"]) == command


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_any_title_can_be_read_and_settles(titles: list[str]) -> None:
    known = after(*(f"ray::{title}" for title in titles))
    assert is_ray_title(known)
    assert settled(known, known) == known


def test_a_worker_is_pointed_at_by_its_title() -> None:
    process = ProcessRecord(4711, 1, 1, "child", "ray::main:Server", [], 0.0)
    assert process_in_words(process) == "the Ray worker main:Server (pid 4711)"
    assert ray_worker_in_words("ray::IDLE") is None
    assert ray_worker_in_words("python") is None
