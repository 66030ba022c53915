"""Quarantine: hold parts that may be wrong because of the marketplace's pages or of the parser, for an operator.

Two things open a case of a seller: answers that the parser cannot read, and a field that changes in more products of
one run than a shop usually changes. A held part keeps its body; its product, hashes and history stay as they were. A
release reads the body with the parser of this version and puts it into the catalogue; a drop keeps only its hash, so
that it is not held again. A case of unreadable answers is resolved when a re-check of the paused run can read them
(`crawling/recheck.py`).

The first changed parts of a run are pending until enough of its parts have been checked: a redesign of the pages shows
by then. A field that changes slowly, in fewer products than the share, is not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from sellerwatch.catalog.differences import Change, ChangeKind
from sellerwatch.catalog.product import PartType
from sellerwatch.kernel.answer_problem import AnswerProblem, stored_problem_text
from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, SellerId
from sellerwatch.kernel.lifecycle import Lifecycle

LONGEST_FIELD = 255
LONGEST_SAMPLE = 500
#: Short enough to be stored in a note together with the id of a task.
LONGEST_PROBLEM = 200


class CaseKind(StrEnum):
    SHARE = "SHARE"
    UNREADABLE = "UNREADABLE"


class CaseStatus(StrEnum):
    OPEN = "OPEN"
    RELEASED = "RELEASED"
    DROPPED = "DROPPED"
    RESOLVED = "RESOLVED"


CASE_LIFE = Lifecycle(
    noun="quarantine case",
    first=CaseStatus.OPEN,
    moves={
        (CaseStatus.OPEN, "release"): CaseStatus.RELEASED,
        (CaseStatus.OPEN, "drop"): CaseStatus.DROPPED,
        (CaseStatus.OPEN, "resolve"): CaseStatus.RESOLVED,
    },
    resting=frozenset({CaseStatus.RELEASED, CaseStatus.DROPPED, CaseStatus.RESOLVED}),
)


@dataclass(eq=False)
class CaseNotFound(NotFound):
    case_id: str


@dataclass(frozen=True)
class Case:
    """Why parts of a seller's products are held, with a sample of the unusual change."""

    case_id: CaseId
    seller_id: SellerId
    execution_id: ExecutionId
    part: PartType
    kind: CaseKind
    field: str
    created_at: datetime
    updated_at: datetime
    status: CaseStatus = CASE_LIFE.first
    sample_item: ItemNo | None = None
    sample_before: str | None = None
    sample_after: str | None = None
    decided_by: str | None = None

    def decide(self, verb: str, by: str, now: datetime) -> Case:
        return replace(self, status=CASE_LIFE.after(self.status, verb, self.case_id), decided_by=by, updated_at=now)

    def covers(self, part: PartType, fields: Iterable[str]) -> bool:
        return self.kind is CaseKind.SHARE and self.part is part and self.field in fields


class HeldStatus(StrEnum):
    """PENDING: until enough parts of its run were checked. HELD: until a decision. DROPPED: only the hash is kept."""

    PENDING = "PENDING"
    HELD = "HELD"
    DROPPED = "DROPPED"


@dataclass(frozen=True)
class HeldPart:
    """A part that is not in the catalogue for now. `hash` is that of its facts, or of a body that could not be read."""

    item_no: ItemNo
    part: PartType
    status: HeldStatus
    seller_id: SellerId
    execution_id: ExecutionId
    hash: str
    created_at: datetime
    case_id: CaseId | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class DriftRules:
    """A field that changed in more than `share` percent of the checked parts and in more than `products` is held.

    Pending parts are decided after the `first` parts. `exempt` kinds of change never open a case: a shop may change all
    its prices overnight. `unreadable` answers of one kind pause the run.
    """

    share: int = 30
    products: int = 20
    first: int = 50
    exempt: frozenset[ChangeKind] = frozenset({ChangeKind.PRICE, ChangeKind.STOCK})
    unreadable: int = 10

    @staticmethod
    def all_fields(changes: Iterable[Change]) -> frozenset[str]:
        """Return all fields that changed: a run shows how often each did."""
        return frozenset(c.general_field[:LONGEST_FIELD] for c in changes)

    def counted_fields(self, changes: Iterable[Change]) -> frozenset[str]:
        """Return the fields that may open a case."""
        return self.all_fields(c for c in changes if c.kind.group not in self.exempt)


@dataclass
class CheckCounts:
    """What the checks of a run have counted so far. Each batch adds to it; `added` is what it has to store."""

    judged: dict[PartType, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    added: dict[tuple[str, str], int] = field(default_factory=dict)

    def judge(self, part: PartType, number: int) -> None:
        self.judged[part] = self.judged.get(part, 0) + number
        self._add("judged", part, number)

    def change(self, part: PartType, fields: Iterable[str]) -> None:
        for name in fields:
            key = f"{part} {name}"
            self.changed[key] = self.changed.get(key, 0) + 1
            self._add("changed", key, 1)

    def fail_to_read(self, problem: str) -> int:
        """Count one more answer that could not be read for this reason, and return the number so far."""
        self.unreadable[problem] = self.unreadable.get(problem, 0) + 1
        self._add("unreadable", problem, 1)
        return self.unreadable[problem]

    def forget_unreadable(self, problem: str) -> None:
        self.unreadable.pop(problem, None)
        self.added.pop(("unreadable", problem), None)

    def strange(self, part: PartType, fields: Iterable[str], rules: DriftRules) -> list[str]:
        """Return those of these fields that changed in too many products of the run."""
        judged = self.judged.get(part, 0)
        counts = {name: self.changed.get(f"{part} {name}", 0) for name in sorted(fields)}
        return [name for name, n in counts.items() if n > rules.products and n * 100 > judged * rules.share]

    def knows_enough(self, part: PartType, rules: DriftRules) -> bool:
        return self.judged.get(part, 0) >= rules.first

    def _add(self, kind: str, name: str, number: int) -> None:
        self.added[kind, name] = self.added.get((kind, name), 0) + number


def problem_kind(part: PartType, problem: AnswerProblem) -> str:
    """Return the kind of a parser's error: the same for every item and number."""
    return f"{part} {problem.general.stored}"[:LONGEST_PROBLEM]


def problem_kind_text(kind: str, language: str) -> str:
    """Return a kind of problem as people read it: the part, and the sentence in their language."""
    part, _, stored = kind.partition(" ")
    return f"{part} {stored_problem_text(stored, language)}"


def sample_of(changes: Sequence[Change], fields: Iterable[str]) -> tuple[str, str]:
    """Return before and after of the first change of these fields, short enough for an alert."""
    wanted = set(fields)
    for change in changes:
        if change.general_field in wanted:
            return _short(change.before), _short(change.after)
    return "", ""


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST_SAMPLE else f"{text[: LONGEST_SAMPLE - 1]}…"
