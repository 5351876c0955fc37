"""What holds for every test of the repository.

Property tests draw the same examples in every `make test`, other ones in every `make test-slow`: a
check that every change has to pass must not fail by the luck of a draw; looking for new
counterexamples is work of its own, with more of them.

A shell ignores SIGINT and SIGQUIT in what it starts in the background, nohup SIGHUP, and whoever is
started so hands that on: many tests here send those signals, and `nohup make test &` is to be no
other test.
"""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=500, deadline=None)
settings.load_profile("same")

for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)
