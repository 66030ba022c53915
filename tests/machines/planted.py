"""Plant a fault in the package while a test runs: a piece of its source is read with other words in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import sellerwatch
from sellerwatch.adapters.redis.server import Script

PACKAGE = Path(sellerwatch.__file__).parent


@dataclass(frozen=True)
class Fault:
    """What the source of a module says, and what it says with the fault; each is there once."""

    module: str
    right: str
    wrong: str


@contextmanager
def planted(*faults: Fault) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for fault in faults:
            _plant(patch, fault)
        yield


def _plant(patch: pytest.MonkeyPatch, fault: Fault) -> None:
    module = sys.modules[f"sellerwatch.{fault.module}"]
    source = (PACKAGE / f"{fault.module.replace('.', '/')}.py").read_text("utf-8")
    assert source.count(fault.right) == 1, f"{fault.module} says {fault.right!r} {source.count(fault.right)} times"
    changed = ModuleType(module.__name__)
    exec(compile(source.replace(fault.right, fault.wrong), str(module.__file__), "exec"), vars(changed))  # noqa: S102
    replaced = _replace(patch, vars(module), vars(changed))
    assert replaced, f"nothing of {fault.module} is different"


def _replace(patch: pytest.MonkeyPatch, old: Any, new: Any) -> int:
    """Replace what differs: functions and scripts where they are, since others have imported them."""
    replaced = 0
    for name, value in list(old.items()):
        other = new.get(name)
        if isinstance(value, FunctionType) and value.__code__ != other.__code__:
            patch.setattr(value, "__code__", other.__code__)
        elif isinstance(value, Script) and value.lua != other.lua:
            patch.setattr(value, "lua", other.lua)
            patch.setattr(value, "sha", other.sha)
        elif isinstance(value, str) and not name.startswith("__") and value != other:
            patch.setitem(old, name, other)
        elif isinstance(value, type) and value.__module__ == old.get("__name__"):
            replaced += _replace(patch, vars(value), vars(other))
            continue
        else:
            continue
        replaced += 1
    return replaced
