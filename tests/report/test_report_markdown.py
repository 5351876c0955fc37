from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from report_runs import write_run

from rerail.report import build_report
from rerail.report.markdown import code, escape, fenced, render


def test_the_same_words_as_on_the_page(tmp_path):
    text = render(build_report(write_run(tmp_path / ".rerail")))
    for words in (
        "# A native library crashed",
        "91 %",
        "`pip install -U fast`",
        "rerail isolate --try '--scan 0'",
        "## Output around the end",
        "step 39 loss 0.5",
        "### Memory of all processes",
        "| pid | role |",
    ):
        assert words in text, words


@given(st.text(max_size=200))
def test_a_text_stays_on_its_line_and_cannot_open_markup(text):
    escaped = escape(text)
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)[<>|*_`\[\]]", escaped)


@given(st.text(alphabet="`~a\n ", max_size=80))
def test_no_listing_ends_its_own_fence(text):
    lines = fenced(text).split("\n")
    fence = lines[0].removesuffix("text")
    inside = "\n".join(lines[1:-1])
    assert inside == text and lines[-1] == fence
    assert not any(line.strip().startswith(fence) for line in inside.split("\n"))


@given(st.text(alphabet="`ab ", max_size=40))
def test_inline_code_is_closed_by_its_own_fence_only(text):
    shown = code(text)
    fence = re.match("`+", shown)
    assert fence is not None
    body = shown[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", body)
