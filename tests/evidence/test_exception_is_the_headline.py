"""An uncaught exception is the headline, whatever was logged at level INFO before it."""

from __future__ import annotations

import itertools

import pytest
from run_builders import box, info, process, recorded

from rerail.catalogue import Cause, load_catalogue
from rerail.diagnosis import diagnose
from rerail.evidence import observe_text
from rerail.evidence.run.collect import collect_recorded
from rerail.records import Evidence, Outcome, PythonFrame

FORMATS = (
    "INFO:{name}:{line}",
    "2026-11-18 14:02:11,532 - {name} - INFO - {line}",
    "[2026-11-18 14:02:11] [INFO] {line}",
    "INFO 2026-11-18 14:02:11,532 {name}.py:812] {line}",
    "I1118 14:02:11.532000 4711 {name}.cc:812] {line}",
    "[I 261118 14:02:11 {name}:61] {line}",
    "2026-11-18 14:02:11 [debug    ] {line}",
    "DEBUG:{name}:{line}",
)
RAISED = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 61, in <module>
    main()
  File "/home/me/train.py", line 53, in update
    names = table[label]
KeyError: 'label'"""
BOX = {
    "exception_type": "KeyError",
    "exception_text": "'label'",
    "exception_frames": [
        PythonFrame("/home/me/train.py", 53, "update"),
        PythonFrame("/home/me/train.py", 61, "<module>"),
    ],
}
ENDED = Outcome("exit", "the command ended with exit code 1", exit_code=1, process="main")
CAUSES = list(load_catalogue())


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_a_line_at_level_info_leaves_the_headline_to_the_exception(cause: Cause) -> None:
    formats = itertools.cycle(FORMATS)
    wrong = []
    for example, shape in zip(cause.matches, formats, strict=False):
        said = [shape.format(name="xla_bridge", line=line) for line in example.splitlines()]
        printed = observe_text(enumerate([*said, *RAISED.splitlines()], 1))
        log = diagnose(Evidence(printed.outcome, printed.observations, printed.facts))
        run = recorded(info=info(ENDED), processes=[process(exit_code=1)], boxes=[box(**BOX)])
        of_run = diagnose(collect_recorded(run, (), observe_text(enumerate(said, 1))))
        for found in (log, of_run):
            is_right = found.headline.startswith("KeyError: 'label' in train.py:53 update()")
            if not is_right or found.facts["where"]["line"] != 53:
                wrong.append((said, found.headline))
    assert not wrong
