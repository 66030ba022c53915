"""State moves as data: one table per noun, `(state, verb) -> state`.

The table is the whole truth about order: nouns ask it for the next state, the documentation draws it, the state-machine
tests walk it. What a table cannot say (a count that is spent, a time that has not come) stays a guard in the noun's own
method, next to the move it guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sellerwatch.kernel.errors import IllegalMove

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True)
class Lifecycle(Generic[S]):
    """The moves of one noun. `resting` are states in which nothing more has to happen: a diagram draws them as ends."""

    noun: str
    first: S
    moves: Mapping[tuple[S, str], S]
    resting: frozenset[S]

    def after(self, state: S, verb: str, name: object) -> S:
        """The state that `verb` leads to, or `IllegalMove` naming the state it was in and the states it needs."""
        try:
            return self.moves[state, verb]
        except KeyError:
            needs = tuple(s.value for s in self.sources(verb))
            raise IllegalMove(noun=self.noun, name=str(name), verb=verb, state=state.value, needs=needs) from None

    def allows(self, state: S, verb: str) -> bool:
        return (state, verb) in self.moves

    def sources(self, verb: str) -> tuple[S, ...]:
        """The states from which `verb` is legal, in the order of the enum."""
        return tuple(state for state in type(self.first) if (state, verb) in self.moves)

    def states(self) -> Iterable[S]:
        return type(self.first)

    def verbs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(verb for _, verb in self.moves))

    def diagram(self) -> str:
        """The table as a Mermaid state diagram; `docs/lifecycles.md` holds these and a test compares them."""
        edges: dict[tuple[S, S], list[str]] = {}
        for (state, verb), target in self.moves.items():
            edges.setdefault((state, target), []).append(verb)
        lines = ["stateDiagram-v2", f"    [*] --> {self.first}"]
        lines += [f"    {a} --> {b}: {', '.join(verbs)}" for (a, b), verbs in edges.items()]
        lines += [f"    {state} --> [*]" for state in self.states() if state in self.resting]
        return "\n".join(lines)
