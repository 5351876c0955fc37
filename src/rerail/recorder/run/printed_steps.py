"""Counts the steps of a training by what it prints, also where each epoch begins anew.

In: what single lines say (`Printed`), in order; some lines between them may not have been read.
Out: the last step, total, epoch and loss, as printed, and how many steps this run has done. Pure.

A word such as `step` goes before a bar, and of several bars the one with the largest total counts:
an evaluation inside the training and the epochs around it draw shorter ones.
"""

from __future__ import annotations

from rerail.platform.printed_progress import MOST, Printed

# What is printed during these is about something else than the training's own steps.
_NOT_TRAINING = ("val", "eval", "test", "mining", "saving")
_MOST_BARS = 32  # with different totals
_MOST_EPOCHS = 1000  # between two looks; a larger number jumped for another reason


class PrintedSteps:
    def __init__(self) -> None:
        self.epoch: float | None = None
        self.epochs: int | None = None
        self.loss: float | None = None
        self.phase: str | None = None
        self._words: _Count | None = None
        self._bars: dict[int, _Count] = {}

    def take(self, said: Printed, *, follows: bool) -> None:
        """`follows`: nothing was left out between the line before and this one."""
        self.phase = said.phase
        if said.phase is not None and said.phase.startswith(_NOT_TRAINING):
            return
        if said.epoch is not None:
            self.epoch = said.epoch
            self.epochs = said.epochs
        if said.loss is not None and not said.is_validation_loss:
            self.loss = said.loss
        if said.step is None:
            return
        if said.unit == "step":
            self._words = count = self._words or _Count()
        elif said.total in self._bars or len(self._bars) < _MOST_BARS:
            count = self._bars.setdefault(said.total or 0, _Count())
        else:
            return
        is_from_zero = said.unit == "step" and said.step == 0
        count.advance(said.step, said.total, self.epoch, follows=follows, is_from_zero=is_from_zero)

    @property
    def _count(self) -> _Count | None:
        if self._words is not None:
            return self._words
        return self._bars[max(self._bars)] if self._bars else None

    @property
    def has_steps(self) -> bool:
        return self._count is not None

    @property
    def step(self) -> int | None:
        return self._count.last if self._count else None

    @property
    def total(self) -> int | None:
        return self._count.total if self._count else None

    @property
    def steps(self) -> int:
        """Done by this run, as far as it has said."""
        return self._count.done if self._count else 0

    @property
    def every(self) -> int | None:
        """How many steps lie between two lines; None until two followed each other."""
        return self._count.every if self._count else None


class _Count:
    """One number that a program prints again and again."""

    def __init__(self) -> None:
        self.last = -1
        self.total: int | None = None
        self.every: int | None = None
        self._first = 0
        self._is_from_zero = False
        self._before = 0  # steps of the passes over the data that are done
        self._begins_anew = False  # with each epoch
        self._epoch: float | None = None
        self._resumed_at: int | None = None

    def advance(
        self,
        step: int,
        total: int | None,
        epoch: float | None,
        *,
        follows: bool,
        is_from_zero: bool,
    ) -> None:
        grown = int(epoch or 0) - int(self._epoch or 0) if self._epoch is not None else 0
        grown = 1 if grown > _MOST_EPOCHS else grown
        if self.last < 0:
            self._first, self._is_from_zero = step, is_from_zero
        elif step > self.last:
            if self._begins_anew and grown > 0:
                self._before += self._length * grown
            elif follows:
                self._note_distance(step - self.last)
        elif step == self.last:
            if grown <= 0 or step != total:
                return  # the same again
            # One line for each epoch, such as 8/8: no finer than that.
            self._before += self._length * grown
            self.every = self._length
        elif grown > 0 or self.last == self.total or 2 * step < self.last:
            self._before += self._length * max(grown, 1)
            self._begins_anew = True
        else:
            return  # another rank that is a little behind
        self.last, self.total, self._epoch = step, total, epoch

    @property
    def _length(self) -> int:
        """Of one pass over the data."""
        if self.total is not None and self.total >= self.last:
            return self.total
        return self.last + self._is_from_zero

    def _note_distance(self, steps: int) -> None:
        self.every = steps
        if self._resumed_at is None:
            # A run that begins at its beginning says so within one distance.
            is_fresh = 2 * self._first <= 3 * steps
            self._resumed_at = 0 if is_fresh else self._first - steps

    @property
    def done(self) -> int:
        done = self._before + self.last + self._is_from_zero - (self._resumed_at or 0)
        return min(max(done, 0), MOST)
