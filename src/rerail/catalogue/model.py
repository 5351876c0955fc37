"""What the catalogue knows of one cause: plain data, read from causes/<family>/<id>.toml.

Weights are natural-log likelihood ratios: a signature of weight w is e**w times as likely to be
seen when this cause killed the run as when something else did. Roughly: 6 says it by itself,
4.5 leaves little doubt, 3 is strong, 1.5 is a hint. A sign may weigh below zero: it speaks against.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Retry = Literal["unchanged", "from-checkpoint", "with-remedy"]
HazardKnob = Literal["workers", "threads"]
Safety = Literal["safe", "changes-results", "hides-it"]
Where = Literal["line", "exception", "frame", "last-frame", "tail"]

SAFETY_ORDER: dict[str, int] = {"safe": 0, "changes-results": 1, "hides-it": 2}


@dataclass(frozen=True)
class Signature:
    """A pattern on the text of a log.

    `where` says what it is matched on: `line` (any text, over line breaks where the pattern has a
    space), `exception` ("Type: message" of an exception that ended something), `frame` (any frame
    of such a traceback, as path:function), `last-frame` (the innermost one, when the paste ends
    before the message), `tail` (the last lines taken together).
    Signatures of one `group` say the same thing twice: only the heaviest counts in full.
    `unless_through`: not what was raised in such a frame, of a `line` that ends a traceback.
    `but_not`: a match that begins like this does not count ("CUDNN_STATUS_SUCCESS").
    `same`, `differ`: these named groups must have matched the same text, or not the same.
    `even_if_resumed`: counts although training went on afterwards.
    """

    name: str
    pattern: str
    weight: float
    where: Where = "line"
    group: str = ""
    unless: str = ""
    unless_through: str = ""
    but_not: str = ""
    same: tuple[str, ...] = ()
    differ: tuple[str, ...] = ()
    even_if_resumed: bool = False
    facts: dict[str, str] = field(default_factory=dict)  # fact name -> named group of the pattern
    literals: tuple[str, ...] = ()  # one of these words is in every text that it matches


@dataclass(frozen=True)
class Sign:
    """A condition on one recorded observation (kinds and fields: docs/evidence.md).

    `when` maps a field to a value, a list of accepted values, or a comparison such as ">= 0.9".
    """

    name: str
    observation: str
    weight: float
    when: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    even_if_resumed: bool = False


@dataclass(frozen=True)
class Symptom:
    """Something that goes wrong in many places, in the words of each library that says it.

    What it is the symptom of depends on where it was seen: what_where.toml.
    """

    id: str
    what: str
    signatures: tuple[Signature, ...]


@dataclass(frozen=True)
class Experiment:
    """`when`: as of a Remedy."""

    change: tuple[str, ...]
    expect: str
    when: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Remedy:
    """`when` maps a fact of the run to a condition, as a Sign's does to a field; `leak.what` is the
    `what` of the fact `leak`. A remedy whose conditions a recorded run does not meet is not offered
    for it. For a log, of which less is known, all are. One that `finds` names the cause and does
    not cure it: it stands behind those that do.
    """

    id: str
    title: str
    safety: Safety
    change: tuple[str, ...] = ()
    note: str = ""  # what it does not do
    by_hand: str = ""  # why a person has to decide on it, although it is safe
    when: dict[str, Any] = field(default_factory=dict)
    finds: bool = False


@dataclass(frozen=True)
class Fix:
    """A remedy for what one message says.

    `pattern` is searched in "Type: message" of an exception, and in the last words of a process
    that crashed; its named groups fill the gaps of `title`, beside the facts. `causes` limits the
    fix to these causes; an empty one does not.
    """

    name: str
    pattern: str
    title: str
    safety: Safety
    causes: tuple[str, ...] = ()
    note: str = ""
    when: dict[str, Any] = field(default_factory=dict)
    literals: tuple[str, ...] = ()  # one of these words is in every text that it matches

    @property
    def remedy(self) -> Remedy:
        return Remedy(self.name, self.title, self.safety, note=self.note, when=self.when)


@dataclass(frozen=True)
class Policy:
    """What rerail does about a cause without asking anybody.

    `retry`: may another attempt help, and after what? `unchanged`: it may go well as it was.
    `from-checkpoint`: a new process that goes on from a checkpoint may come further; begun anew it
    would end the same way. `with-remedy`: only with something changed. A safe remedy that rerail
    can apply by itself always makes another attempt worthwhile.
    `is_certain`: nothing of chance is in it, so the unchanged program dies of it at one place.
    `is_from_outside`: somebody or something outside ended the run; nothing is wrong with it.
    `is_echo`: its message may only report that somebody else failed.
    `waits_for_others`: it says that others were waited for, who may never have come.
    `is_refusal`: the program says itself that it does not take what it was given.
    `is_of_checkpoint`: the checkpoint is at fault, so an older one is something else to try.
    `spoils_checkpoints`: a checkpoint that was written after it began is of no use.
    `builds_up`: a process gathers it over its life. A new one begins without it, also from a
    checkpoint: to see it again takes the whole way.
    `is_dead_worker`: what is known of a DataLoader worker that died, whatever it died of.
    `is_told_by_exception`: two failures of it are the same only if the exception is.
    `same_damage_as`: causes that the same damage shows as, by chance.
    `needs_gpu`: without a GPU in use it cannot be, whatever a general message sounds like.
    `raised_by`: more of these makes the failure come sooner.
    """

    retry: Retry
    is_certain: bool = False
    is_from_outside: bool = False
    is_echo: bool = False
    waits_for_others: bool = False
    is_refusal: bool = False
    is_of_checkpoint: bool = False
    spoils_checkpoints: bool = False
    builds_up: bool = False
    is_dead_worker: bool = False
    is_told_by_exception: bool = False
    needs_gpu: bool = False
    same_damage_as: tuple[str, ...] = ()
    raised_by: tuple[HazardKnob, ...] = ()

    def may_go_well_unchanged(self, *, resumes: bool | None) -> bool:
        """`resumes`: whether it goes on from a checkpoint; None where nobody knows."""
        return self.retry == "unchanged" or (
            self.retry == "from-checkpoint" and resumes is not False
        )


@dataclass(frozen=True)
class Cause:
    id: str
    title: str
    family: str
    what_happened: str
    mechanism: str
    policy: Policy
    headline: tuple[str, ...] = ()  # templates; the first one whose facts are all known is said
    prior: float = 0.0
    is_residual: bool = False  # said only when nothing more specific explains the ending
    outranks: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    signs: tuple[Sign, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    matches: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    causes: dict[str, Cause]
    symptoms: tuple[Symptom, ...] = ()
    fixes: tuple[Fix, ...] = ()

    def __getitem__(self, cause_id: str) -> Cause:
        return self.causes[cause_id]

    def __iter__(self) -> Any:
        return iter(self.causes.values())

    def __len__(self) -> int:
        return len(self.causes)

    def __contains__(self, cause_id: object) -> bool:
        return cause_id in self.causes

    def policy_of(self, cause_id: str | None) -> Policy:
        """Of an id that is not (or no longer) in the catalogue: nothing is known."""
        cause = self.causes.get(cause_id or "")
        return cause.policy if cause is not None else _UNKNOWN

    @cached_property
    def echoes(self) -> frozenset[str]:
        """Ids of the causes whose messages may only report somebody else's failure."""
        return frozenset(cause.id for cause in self if cause.policy.is_echo)

    @property
    def dead_worker(self) -> Cause:
        """The cause that a dead DataLoader worker has at least."""
        return next(cause for cause in self.causes.values() if cause.policy.is_dead_worker)


_UNKNOWN = Policy(retry="unchanged")
