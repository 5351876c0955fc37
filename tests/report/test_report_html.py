from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import DIAGNOSIS, write_investigation, write_run

from rerail.diagnosis.reading import read_document
from rerail.report import build_report
from rerail.report.document import (
    Chart,
    Document,
    Facts,
    Listing,
    ListingLine,
    Paragraph,
    Section,
    Series,
    Table,
)
from rerail.report.html import LARGEST_BYTES, as_data_block, render
from rerail.report.package import pack

HOSTILE = (
    "</script><script>alert(1)</script><!-- --><img src=x onerror=alert(1)>"
    "<svg/onload=alert(1)>\u2028\u2029]]>'\"{{7*7}}{% raw %}&lt;"
)


class Page(HTMLParser):
    """Elements, attributes, and the text of scripts and styles, as a browser would see them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.ids, self.scripts, self.text = [], [], [], []
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag in ("script", "style"):
            self._inside = [tag, dict(attributes), ""]

    def handle_endtag(self, tag):
        if self._inside is not None and tag == self._inside[0]:
            self.scripts.append(tuple(self._inside))
            self._inside = None

    def handle_data(self, data):
        if self._inside is not None:
            self._inside[2] += data
        else:
            self.text.append(data)


@pytest.fixture
def page_of(tmp_path):
    def make(**parts):
        folder = write_run(tmp_path / ".rerail", **parts)
        return render(build_report(folder))

    return make


def test_the_page_says_how_it_ended_why_and_what_to_do(page_of):
    page = Page(page_of())
    text = " ".join(" ".join(page.text).split())
    for words in (
        "A native library crashed",
        "91 %",
        "SIGSEGV in scan() of libfast.so.",
        "Memory grew.",
        "Update it",
        "pip install -U fast",
        "rerail isolate --try '--scan 0'",
        "Memory of all processes",
        "step 39 loss 0.5",
        "Processes",
        "#1 scan libfast.so+0x20",
        "400 MiB",
    ):
        assert words in text, words


def test_every_link_of_the_page_has_its_target_and_ids_are_unique(page_of):
    page = Page(page_of())
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links and all(link[1:] in page.ids for link in links)
    assert len(page.ids) == len(set(page.ids))
    assert "#L8" in links and "#crash" in links and "#timeline" in links


def test_the_page_asks_for_nothing_from_outside(page_of):
    text = page_of()
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "img", "form", "base")
        assert "src" not in attributes and "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    style = next(content for tag, _, content in page.scripts if tag == "style")
    assert "url(" not in style and "@import" not in style


def test_the_policy_allows_exactly_the_scripts_that_are_there(page_of):
    page = Page(page_of())
    policy = next(
        a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag, attributes, content in page.scripts:
        if attributes.get("type") == "application/json":
            continue
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy, tag


def test_headings_go_down_one_step_at_a_time_and_charts_have_words(page_of):
    page = Page(page_of())
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    plots = [a for tag, a in page.elements if a.get("role") == "img"]
    assert plots and all(label in page.ids for a in plots for label in a["aria-labelledby"].split())


def test_hostile_texts_stay_texts(page_of):
    diagnosis = json.loads(json.dumps(DIAGNOSIS))
    diagnosis["causes"][0]["title"] = HOSTILE
    diagnosis["causes"][0]["for"][0] = {"text": HOSTILE, "source": f"output:{HOSTILE}"}
    diagnosis["causes"][0]["remedies"][0] = {
        "title": HOSTILE,
        "safety": HOSTILE,
        "change": [HOSTILE],
    }
    diagnosis["facts"] = {"last_step": HOSTILE, "library": HOSTILE}
    text = page_of(
        command=["python", HOSTILE],
        cwd=f"/{HOSTILE}",
        output=(HOSTILE + "\n").encode() * 5,
        surroundings={HOSTILE: {HOSTILE: HOSTILE}},
        diagnosis=diagnosis,
        message=HOSTILE,
    )
    page = Page(text)
    assert [a.get("type", "") for tag, a in page.elements if tag == "script"] == [
        "application/json",
        "",
    ]
    assert not any(tag in ("img", "svg") for tag, _ in page.elements)
    assert "49" not in " ".join(page.text).split()
    assert (
        "<!--" not in text
        and "</script><script>"
        not in text.partition("<body>")[2].partition('<script type="application/json"')[0]
    )
    assert any("onerror=alert(1)" in part for part in page.text)


@given(
    st.recursive(
        st.text() | st.integers(),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
        max_leaves=8,
    )
)
def test_a_data_block_cannot_be_left_and_reads_back(value):
    block = as_data_block(value)
    assert not set(block) & set("<>&'") and block.isascii()
    assert json.loads(block) == value


@given(st.text(alphabet="<>/!-scriptCDATA[]&\u2028'\" ", max_size=60))
def test_no_chart_label_ends_the_data_block(label):
    chart = Chart("memory", "t", "count", [0.0, 1.0], [Series(label, [1.0, None])], label)
    document = Document("t", "s", Facts([]), [Section("timeline", "T", [chart])], "id", "g")
    page = Page(render(document))
    data = [c for tag, a, c in page.scripts if a.get("type") == "application/json"]
    assert json.loads(data[0])[0]["series"][0]["label"] == label


def test_a_page_of_too_much_loses_folded_parts_first_and_says_so():
    huge = Listing([ListingLine("x" * 500)] * 3000, "Everything", is_folded=True)
    worth = Table(["a"], [["kept " * 3]], "Small")
    document = Document(
        "t", "s", Facts([]), [Section("a", "A", [huge, Paragraph("kept"), worth, huge])], "id", "g"
    )
    page = render(document)
    assert len(page.encode()) <= LARGEST_BYTES
    assert "left out" in page and "kept kept" in page


def test_a_long_run_stays_under_two_megabytes(tmp_path):
    output = b"".join(b"step %d loss %s\n" % (i, b"9" * 900) for i in range(3000))
    packages = {f"package-{i}": "1.0" * 50 for i in range(3000)}
    folder = write_run(
        tmp_path / ".rerail", rows=4000, output=output, surroundings={"packages": packages}
    )
    page = render(build_report(folder))
    assert len(page.encode()) < 2_000_000
    assert "step 2999" in page


def test_experiments_appear_when_there_are_some(tmp_path):
    folder = write_run(tmp_path / ".rerail")
    assert "Experiments" not in render(build_report(folder))
    write_investigation(
        folder,
        {
            "schema": 1,
            "status": "confirmed",
            "changes": ["--workers 0"],
            "confidence": 0.993,
            "alternatives": [["--miner none"]],
            "ruled_out": ["--accum 1"],
            "posterior": {"--workers 0": 0.99},
            "trials": [
                {
                    "changes": [],
                    "outcome": "crashed",
                    "exposure": 117,
                    "unit": "steps",
                    "seconds": 9.1,
                }
            ],
        },
    )
    page = render(build_report(folder))
    for words in (
        "Confirmed by experiment: --workers 0",
        "99.3 %",
        "117 steps",
        "Ruled out: --accum 1",
    ):
        assert words in page


def test_a_verification_speaks_for_itself(tmp_path):
    folder = write_run(tmp_path / ".rerail")
    crash = {"changes": [], "outcome": "crashed", "exposure": 117, "unit": "steps", "seconds": 9.1}
    clean = {**crash, "changes": ["--workers 0"], "outcome": "survived", "exposure": 2300}
    document = {
        "schema": 1,
        "status": "proven",
        "summary": ["Proven to 95 %: with --workers 0 it stayed clean for 2,300 steps."],
        "trials": [clean],
        "references": [crash],
    }
    (folder.path / "verification.json").write_text(json.dumps(document))
    page = render(build_report(folder))
    for words in (*document["summary"], "2300 steps", "Runs without it", "117 steps"):
        assert words in page
    assert (
        json.loads(dict(pack(folder, read_document(DIAGNOSIS)).files)["verification.json"])
        == document
    )


@pytest.mark.parametrize(
    "rubbish", [b"[]", b"{", b"null", b'{"trials": 3, "status": []}', b'{"summary": [3, {}]}']
)
@pytest.mark.parametrize("name", ["investigation.json", "verification.json"])
def test_experiments_that_are_none_do_no_harm(tmp_path, name, rubbish):
    folder = write_run(tmp_path / ".rerail")
    (folder.path / name).write_bytes(rubbish)
    assert "<h1" in render(build_report(folder))


@pytest.mark.parametrize(
    "diagnosis",
    [
        {"schema": 1, "outcome": {"kind": "ok", "summary": "It finished."}, "causes": "none"},
        {"schema": 1, "outcome": None, "causes": [None, 3, {"probability": "high"}], "facts": []},
        {"schema": 1, "causes": [{"id": "x", "for": [1, {"source": 3}], "remedies": ["r"]}]},
    ],
)
def test_a_strange_diagnosis_counts_as_none(page_of, tmp_path, diagnosis):
    """The run is explained anew, as one that nobody has explained yet."""
    page = page_of(diagnosis=diagnosis)
    folder = write_run(tmp_path / "unexplained")
    (folder.path / "diagnosis.json").unlink()
    wanted = build_report(folder).title
    assert f"<h1>{wanted}</h1>" in page


def test_the_same_run_gives_the_same_page(tmp_path):
    folder = write_run(tmp_path / ".rerail")
    assert render(build_report(folder)) == render(build_report(folder))


def test_a_folder_without_its_parts_still_has_a_page(tmp_path):
    folder = write_run(tmp_path / ".rerail")
    for name in ("vitals.jsonl", "output.log", "surroundings.json", "crashes.json"):
        (folder.path / name).unlink()
    (folder.path / "after.json").write_text("{")
    page = render(build_report(folder))
    assert "What the record lacks" in page and "after.json" in page
