"""Property tests draw the same examples in every `make test`, other ones in every `make test-slow`.

A check that every change has to pass must not fail by the luck of a draw; looking for new
counterexamples is work of its own, with more of them.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=500, deadline=None)
settings.load_profile("same")
