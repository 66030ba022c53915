"""Frozen values that are made cheaply: what structs have not replaced yet (docs/decisions/0017-values-are-structs.md).

`tests/architecture/test_house.py` lists the modules that use this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def fast_frozen(kind: type[T]) -> type[T]:
    """Make the values of a frozen dataclass at a fifth of the cost, by setting their fields plainly.

    The type checker still refuses to set a field. At run time only tests do (`freeze_at_run_time`).
    """
    after = {name: method for name, method in vars(kind).items() if name == "__post_init__"}
    named = [(field.name, field.type, field) for field in fields(kind)]  # type: ignore[arg-type]
    fast = make_dataclass(kind.__name__, named, namespace=after).__init__  # type: ignore[misc]
    _frozen.append(_FrozenKind(kind, kind.__init__, kind.__setattr__, kind.__delattr__))
    kind.__init__ = fast  # type: ignore[method-assign]
    del kind.__setattr__, kind.__delattr__
    if _is_frozen_at_run_time:
        _frozen[-1].restore()
    return kind


def make_with(kind: type[T], fields: dict[str, Any]) -> T:
    """Return a value with these fields: for rows of the database."""
    return kind(**fields)


def freeze_at_run_time() -> None:
    """Refuse to set a field of a `fast_frozen` value at run time too, from now on. Tests call this."""
    global _is_frozen_at_run_time  # noqa: PLW0603 - one switch for the process, as for all classes
    _is_frozen_at_run_time = True
    for each in _frozen:
        each.restore()


@dataclass(frozen=True)
class _FrozenKind:
    """A class with the methods that `dataclass(frozen=True)` gave it."""

    kind: type[Any]
    init: Callable[..., None]
    set_field: Callable[..., None]
    delete_field: Callable[..., None]

    def restore(self) -> None:
        self.kind.__init__ = self.init
        self.kind.__setattr__ = self.set_field
        self.kind.__delattr__ = self.delete_field


_frozen: list[_FrozenKind] = []
_is_frozen_at_run_time = False
