"""Record what every CLI command and API route answers, and compare two such recordings.

`record` starts the simulator, prepares a database that has one of everything worth seeing (failed, held and cancelled
things, pauses, suspended agents), then runs every command and calls every route, each on a copy of that database, and
writes one JSON file for each. What is asked is in surface_cases.toml. Only commands and HTTP are used, so this script
records any checkout. `compare` ends with exit code 1 when a command, a route, an option or a key is gone, or an exit
code or a status differs. From the root of the repository:

    python -m scripts.record_surface record /tmp/before --source /path/to/old/checkout
    python -m scripts.record_surface record /tmp/after
    python -m scripts.record_surface compare /tmp/before /tmp/after
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scripts.surface_compare import compare
from scripts.surface_program import UUID, Checkout, call, metrics, parsed, wait

ROOT = Path(__file__).resolve().parent.parent
CASES: dict[str, Any] = tomllib.loads((ROOT / "scripts/surface_cases.toml").read_text("utf-8"))
#: Of commands that run until they are stopped, only the options are recorded.
ENDLESS = {"serve", "api", "worker", "scheduler"}
NOBODY = "00000000-0000-7000-8000-000000000000"
SIMULATOR = "simulator --port 0 --json --seed 7 --sellers 5 --products 12 --steady --requests-per-second 0"


def prepare(base: Checkout, doors: str) -> dict[str, Any]:
    """Everything in [preparation]; returns what its `crawl` commands answered."""
    said: dict[str, Any] = {}
    for number, step in enumerate(CASES["preparation"]["steps"]):
        words = shlex.split(step)
        own = dict(words.pop(0).split("=", 1) for word in tuple(words) if re.match(r"[A-Z_]+=", word))
        at = replace(base, settings=base.settings | own)
        if words[0] == "door":
            call(doors, "POST", f"/__simulator__/{words[1]}")
        elif words[0] == "serve":
            with base.running("serve"):
                wait(lambda: settled(base), 0.5)
        else:
            if "{" in step:
                base.names.update(found_names(base, expected=False))
            code, out, err = at.run([base.filled(word) for word in words])
            if words[0] == "crawl":
                said[f"prepared {number}: {shlex.join(words[1:])}"] = result(base, code, out, err)
            elif code:
                print(f"warning: {step!r} ended with {code}: {err.strip()[:300]}", file=sys.stderr)
    base.names.clear()
    base.names.update(found_names(base))
    return said


def settled(base: Checkout) -> bool:
    runs = json.dumps(base.json_of(["executions", "list"]))
    waiting = json.dumps(base.json_of(["outbox", "list", "--status", "WAITING"]))
    return '"COMPLETED"' in runs and not re.search('"(PENDING|RUNNING)"', runs) and '"WAITING"' not in waiting


def found_names(base: Checkout, *, expected: bool = True) -> dict[str, str]:
    names = {"seller": "seller_0001", "nobody": NOBODY}
    listings: dict[str, list[Any]] = {}
    for name, (command, key, *held) in CASES["names"].items():
        if command not in listings:
            answer = base.json_of(command.split())
            lists = [each for each in answer.values() if isinstance(each, list)] if isinstance(answer, dict) else []
            listings[command] = lists[0] if lists else []
        entries = [each for each in listings[command] if all(word in each.values() for word in held)]
        ids = re.findall(UUID, json.dumps(entries[:1]))
        # Where the key has another name by now, the first id of the entry is most likely its own.
        value = entries[0].get(key) if entries and entries[0].get(key) is not None else (ids or [NOBODY])[0]
        if value == NOBODY and expected:
            print(f"warning: the prepared database has no {name}", file=sys.stderr)
        names[name] = str(value)
    return names


def commands(base: Checkout, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every command there is with its options, as `--help` has them."""
    panels: dict[str, list[str]] = defaultdict(list)
    title = ""
    for line in base.run([*words, "--help"])[1].splitlines():
        if opened := re.match(r"╭─ (.+?) ─", line):
            title = opened[1]
        elif line.startswith("│ "):
            panels[title].append(line.strip("│ ") if line[2] != " " or title != "Commands" else "")
    if panels["Commands"]:
        for line in filter(None, panels["Commands"]):
            yield from commands(base, (*words, line.split()[0]))
    else:
        told = [" ".join(line.split()) for line in filter(None, panels["Options"])]
        arguments = [" ".join(line.split()) for line in filter(None, panels["Arguments"])]
        yield words, {"arguments": arguments, "options": {line.lstrip("* ").split()[0]: line for line in told}}


def result(at: Checkout, code: int, out: str, err: str) -> dict[str, Any]:
    return {"exit": code, "out": at.normal(parsed(out)), "err": at.normal(parsed(err)[:6] if err.strip() else [])}


def record_command(base: Checkout, words: tuple[str, ...], described: dict[str, Any]) -> dict[str, Any]:
    name = " ".join(words)
    cases: dict[str, Any] = {}
    if name not in ENDLESS:
        at = base.copy("cli-" + "-".join(words))
        for case in CASES["commands"].get(name, [""]):
            arguments = shlex.split(at.filled(case))
            as_json = ["--json"] if "--json" in described["options"] else []
            label = case if case not in cases else f"{case} (again)"
            cases[label] = result(at, *at.run([*words, *arguments, *as_json]))
        shutil.rmtree(at.folder)
    return {"command": name, **described, "cases": cases}


@dataclass(frozen=True)
class Api:
    """The API of a process of its own, and who asks."""

    at: Checkout
    address: str

    def ask(self, method: str, path: str, body: str | None, role: str | None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.at.names[role]}"} if role else {}
        if role == "admin":
            headers["X-API-Key"] = self.at.settings["INTERNAL_API_KEYS"]
        status, kind, text = call(self.address, method, path, body, headers)
        answer = metrics(text) if kind.startswith("text/plain") else parsed(text) if text else None
        return {"status": status, "type": kind, "body": self.at.normal(answer)}


def inlined(document: dict[str, Any], node: Any, within: tuple[str, ...] = ()) -> Any:
    """A part of the API's description with the schemas that it refers to in their places; their names are internal."""
    if isinstance(node, list):
        return [inlined(document, each, within) for each in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).split("/")[-1]
    if name:
        return {} if name in within else inlined(document, document["components"]["schemas"][name], (*within, name))
    return {k: inlined(document, v, within) for k, v in node.items() if k != "title" or not isinstance(v, str)}


def query_samples(document: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, list[str], bool]]:
    """Each query parameter with values to try, and whether it must be there."""
    found = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] != "query":
            continue
        schema = inlined(document, parameter["schema"])
        schemas = schema.get("anyOf", [schema])
        known = [str(value) for each in schemas for value in each.get("enum", ())]
        typed = {"boolean": "true", "integer": "1", "number": "1"}.get(schemas[0].get("type", ""), "x")
        values = known or CASES["query"].get(parameter["name"], [typed])
        found.append((parameter["name"], values, bool(parameter.get("required")) or parameter["name"] == "seconds"))
    return found


def route_cases(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    listed = CASES["routes"].get(f"{method} {re.sub(r'{.*?}', '{}', path)}", [""])
    queries = query_samples(document, operation)
    must = "&".join(f"{name}={values[0]}" for name, values, required in queries if required)
    for case in listed:
        yield case + (f"?{must}" if must and "?" not in case else "")
    if method == "GET":
        for name, values, required in queries:
            for value in values[required:]:
                yield f"?{must}{'&' if must else ''}{name}={value}"


def address_of(path: str, values: str) -> str:
    """The path with these values, or the usual ones, in place of its parameters."""
    given = iter(filter(None, values.split("/")))
    parts = path.split("/")
    return "/".join(
        next(given, CASES["path"].get(parts[at - 1], "{nobody}")) if part.startswith("{") else part
        for at, part in enumerate(parts)
    )


def record_route(api: Api, document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    operation = document["paths"][path][method.lower()]
    cases: dict[str, Any] = {}

    def ask(case: str, label: str, role: str | None) -> None:
        found = re.fullmatch(r"([^?{ ]*(?:\{\w+\})?[^?{ ]*)(\?\S*)?(?: ?(\{.*))?", case)
        values, query, body = found.groups() if found else (case, "", None)
        target = api.at.filled(address_of(path, values) + (query or ""))
        label = label if label not in cases else f"{label} (again)"
        cases[label] = api.ask(method, target, api.at.filled(body) if body else None, role)

    made = list(route_cases(document, method, path, operation))
    ask(made[0], "without a token", None)
    if method != "GET":
        ask(made[0], "as a viewer", "viewer")
    if "{" in path:
        ask("{nobody}" + ("{}" if "requestBody" in operation else ""), "of nobody", "admin")
    for case in made:
        ask(case, case, "admin")
    told = inlined(document, {key: operation[key] for key in ("requestBody", "responses") if key in operation})
    told["parameters"] = {f"{p['in']} {p['name']}": inlined(document, p) for p in operation.get("parameters", ())}
    return {"route": f"{method} {re.sub('{.*?}', '{}', path)}", "described": told, "cases": cases}


@contextmanager
def api_of(base: Checkout, name: str) -> Iterator[Api]:
    at = base.copy(name)
    with at.running("api") as said:
        found = re.search(r'"api": "(http://[^"]+)"', said)
        if found is None:
            raise RuntimeError(f"the API did not start: {said}")
        yield Api(at, found[1])
    shutil.rmtree(at.folder)


def record(out: Path, source: Path) -> None:
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        base = Checkout(source, Path(folder) / "base", {**CASES["settings"], "DATABASE_URL": "sqlite:///watched.db"})
        base.folder.mkdir()
        with base.running(*shlex.split(SIMULATOR), "--window-limit", "100000") as said:
            facts = json.loads(said)
            base.settings.update(MARKETPLACE_URL=facts["marketplace"], PRODUCT_SERVER_URL=facts["product_server"])
            write(out / "cli", "simulator-announcement", base.normal(facts))
            crawled = prepare(base, facts["marketplace"])
            for role in ("admin", "viewer"):
                base.names[role] = base.run(["auth", "token", "--role", role, "--name", "recorder"])[1].strip()

            def run(command: tuple[tuple[str, ...], dict[str, Any]]) -> None:
                kept = record_command(base, *command)
                kept["cases"] |= crawled if command[0] == ("crawl",) else {}
                write(out / "cli", "-".join(command[0]), kept)

            with ThreadPoolExecutor(2) as pool:
                list(pool.map(run, commands(base)))
                record_api(base, out / "api", pool)


def record_api(base: Checkout, out: Path, pool: ThreadPoolExecutor) -> None:
    with api_of(base, "reads") as api:
        document = json.loads(call(api.address, "GET", "/openapi.json")[2])
        write(out, "openapi", {key: value for key, value in document.items() if key not in ("paths", "components")})
        routes = [
            (m.upper(), path) for path, methods in document["paths"].items() for m in methods if m != "parameters"
        ]
        for method, path in routes:
            if method == "GET":
                write(out, route_name(method, path), record_route(api, document, method, path))

    def change(route: tuple[str, str]) -> None:
        with api_of(base, route_name(*route)) as own:
            write(out, route_name(*route), record_route(own, document, *route))

    list(pool.map(change, [route for route in routes if route[0] != "GET"]))


def route_name(method: str, path: str) -> str:
    """A file's name; how a parameter is called makes no difference."""
    return method + re.sub(r"{.*?}", "{}", path).replace("/", "-")


def write(folder: Path, name: str, content: Any) -> None:
    folder.mkdir(exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True)
    (folder / f"{name}.json").write_text(text + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    recording = modes.add_parser("record", help="write a recording into a new folder")
    recording.add_argument("out", type=Path)
    recording.add_argument("--source", type=Path, default=ROOT, help="the checkout to record; default: this one")
    comparing = modes.add_parser("compare", help="print what differs between two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.mode == "compare":
        return compare(given.before, given.after)
    record(given.out, given.source.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
