"""Read all sources of settings and validate them together: all faults are reported at once, before anything starts.

Precedence: run-time override (kept in the database), environment, file, HTTPS_PROXY and NO_PROXY, default. A secret can
be given as `NAME_FILE`. The source of each value is kept, so that it can be shown.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sellerwatch.kernel.wording import Problem
from sellerwatch.settings.faults import Fault, InvalidSettings, faults_together
from sellerwatch.settings.model import IN_FILES, PREFIX, SECRETS, Settings, without_credentials
from sellerwatch.settings.values import sayable

CONFIG = "CONFIG"
#: Variables that many programs read, without our prefix.
_COMMON = ("https_proxy", "no_proxy")


@dataclass(frozen=True)
class Loaded:
    """Settings in force and the source of each: `override`, `environment`, `file` or `default`."""

    settings: Settings
    origins: Mapping[str, str] = field(default_factory=dict)


def load(environment: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Loaded:
    """Read all sources, or raise `InvalidSettings` with every fault."""
    faults: list[Fault] = []
    ours = _ours(environment, faults)
    layers = (
        ("environment", _common_names(ours)),
        ("file", _from_file(ours, faults)),
        ("environment", _from_environment(ours, faults)),
        ("override", dict(overrides or {})),
    )
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    settings = _validated(values, faults)
    if settings is not None:
        faults += faults_together(settings)
    if settings is None or faults:
        raise InvalidSettings(faults=tuple(faults))
    return Loaded(settings, origins)


def tuned(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    """Return the settings with limits changed at run time, or raise `InvalidSettings` with every fault."""
    faults: list[Fault] = []
    changed = _validated(settings.model_dump() | dict(overrides), faults)
    if changed is None:
        raise InvalidSettings(faults=tuple(faults))
    return changed


def _ours(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, str]:
    """Return the variables that are read. What is not UTF-8 is a fault: no message could quote it, no driver send."""
    ours = {}
    for name, value in environment.items():
        # An empty variable is how shells and compose files say "not set".
        if (name.startswith(PREFIX) or name.lower() in _COMMON) and value != "":
            if sayable(name + value) == name + value:
                ours[name] = value
            else:
                faults.append(Fault(sayable(name), Problem("not_utf8")))
    return ours


def _common_names(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what the environment says to all programs, in the names that they share."""
    given = {name: environment.get(name.upper()) or environment.get(name) for name in _COMMON}
    return {name: value for name, value in given.items() if value}


def _from_file(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, Any]:
    path = environment.get(PREFIX + CONFIG)
    if not path:
        return {}
    try:
        with Path(path).open("rb") as opened:
            table = tomllib.load(opened)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(Fault.of(CONFIG, "not_toml", path=path, why=str(error)))
        return {}
    except (OSError, ValueError) as error:
        faults.append(Fault.of(CONFIG, "unreadable_file", path=path, why=_why(error)))
        return {}
    return _known({name.lower(): value for name, value in table.items()}, faults, path)


def _from_environment(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, Any]:
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name != PREFIX + CONFIG
    }
    for name in [n for n in given if n.endswith("_file") and n.removesuffix("_file") in IN_FILES]:
        path, plain = given.pop(name), name.removesuffix("_file")
        if plain in given:
            faults.append(Fault.of(name.upper(), "given_twice", other=PREFIX + plain.upper()))
            continue
        try:
            secret = Path(path).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            faults.append(Fault.of(name.upper(), "unreadable_file", path=path, why=_why(error)))
            continue
        if not secret:
            faults.append(Fault.of(name.upper(), "empty_file", path=path))
            continue
        given[plain] = secret
    return _known(given, faults, None)


def _why(error: OSError | ValueError) -> object:
    """Return why a file cannot be read, without its text: it may be a secret."""
    if isinstance(error, UnicodeDecodeError):
        return Problem("not_utf8")
    return (error.strerror if isinstance(error, OSError) else None) or Problem("not_a_path")


def _known(given: dict[str, Any], faults: list[Fault], file: str | None) -> dict[str, Any]:
    known = Settings.model_fields
    for name in [n for n in given if n not in known]:
        del given[name]
        near = difflib.get_close_matches(name, known, n=1)
        hint = Problem("nearest", {"name": PREFIX + near[0].upper()}) if near else Problem("all_names")
        key = "unknown" if file is None else "unknown_in_file"
        faults.append(Fault.of(name.upper(), key, file=file, hint=hint))
    return given


def _validated(values: dict[str, Any], faults: list[Fault]) -> Settings | None:
    try:
        return Settings.model_validate(values)
    except ValidationError as invalid:
        for error in invalid.errors(include_input=False, include_url=False):
            name = str(error["loc"][0])
            value = None if name in SECRETS else sayable(without_credentials(str(values.get(name))))
            faults.append(Fault(PREFIX + name.upper(), Problem.of(**error), value))
        return None
