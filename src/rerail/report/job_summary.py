"""The summary of a job in GitHub Actions: Markdown, appended to the file of $GITHUB_STEP_SUMMARY.

In: a run that is over, and its diagnosis. Out: Markdown, masked as a package is, since whoever may
see the job reads it. Promises: bounded, whatever the run has printed.
"""

from __future__ import annotations

from rerail.diagnosis import Diagnosis
from rerail.privacy import Redactor
from rerail.report.ending_line import finish_line
from rerail.report.markdown import code, escape
from rerail.report.masked_run import mask_run
from rerail.report.summary import answer_in_markdown
from rerail.store import RunFolder

MOST_BYTES = 32 << 10  # of the 1 MiB that GitHub takes of all steps together


def step_summary(folder: RunFolder, diagnosis: Diagnosis | None) -> str:
    """Without a diagnosis: one line, of a run that ended well."""
    redactor = Redactor(folder.private().secrets)
    if diagnosis is None:
        redactor.learn_text(line := finish_line(folder.path))
        redactor.finish_learning()
        return f"rerail: {escape(redactor.mask(line))}\n"
    masked = mask_run(folder, diagnosis, redactor)
    text = answer_in_markdown(masked.run, masked.diagnosis)
    text += f"\n\nMore: {code(f'rerail explain {folder.id}')}\n"
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        headline = escape(masked.diagnosis.headline)[:1000]
        text = f"# {headline}\n\nMore: {code(f'rerail explain {folder.id}')}\n"
    return text
