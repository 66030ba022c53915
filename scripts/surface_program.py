"""The program of one checkout as a process, and its answers without what differs from run to run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

PATIENCE = 120.0
STANDARD_INPUT = "a horse of its own\n"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: What differs from run to run, in texts; the first that fits is replaced first.
IN_TEXTS = (
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (UUID, "<uuid>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| UTC)?", "<time>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"\b[0-9a-f]{32,}\b", "<hash>"),
    (r"\b\d+(\.\d+)? ?(ms|s|seconds?|min|minutes?|h|hours?|days?)\b", "<number> \\2"),
)
#: Numbers, and opaque texts, that differ from run to run, by their key.
NUMBERS = re.compile(
    r"([sS]econds|[sS]core|[bB]ytes|[dD]uration|Ms|^age|Age|^lag|Lag|[lL]atency|^under\d+\w+|^older|^none|^left|^used"
    r"|^requests|^succeeded|^usageCount|^successCount|^requestsPerDay|^average|^current)$"
)
OPAQUE = re.compile(r"(next|cursor|sha256|hash|etag)$", re.IGNORECASE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Checkout:
    """The program of one checkout with its settings, and the folder that it works in."""

    source: Path
    folder: Path
    settings: dict[str, str]
    names: dict[str, str] = field(default_factory=dict)

    def start(
        self, words: Sequence[str], *, code: str = "", variables: dict[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """Start the program; `code` is run in its place, with the same arguments."""
        # Hundreds of processes are started: none compiles everything anew.
        left_out = ("SELLERWATCH_", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        ours = {f"SELLERWATCH_{name}": value for name, value in self.settings.items()}
        fixed = {"PYTHONPATH": str(self.source / "src"), "LOGNAME": "recorder", "NO_COLOR": "1", "COLUMNS": "400"}
        command = [sys.executable, *(("-c", code) if code else ("-m", "sellerwatch")), *words]
        env = kept | ours | fixed | {"TERM": "dumb", "PYTHONIOENCODING": "utf-8"} | (variables or {})
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, encoding="utf-8", **more)

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        pipe = subprocess.PIPE
        with self.start(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                out, err = process.communicate(STANDARD_INPUT, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        return process.returncode, out, err

    def filled(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def json_of(self, words: Sequence[str]) -> Any:
        return parsed(self.run([*words, "--json"])[1])

    def copy(self, name: str) -> Checkout:
        """The same on a database of its own."""
        folder = self.folder.parent / name
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("*.log"))
        return replace(self, folder=folder)

    @contextmanager
    def running(self, *words: str) -> Iterator[str]:
        """A command that runs until it is stopped; what it has said so far once it listens."""
        log = self.folder / f"{words[0]}.log"
        with log.open("w") as said, self.start(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as process:
            try:
                wait(lambda: "http://" in log.read_text("utf-8") or process.poll() is not None)
                time.sleep(0.1)
                yield log.read_text("utf-8")
            finally:
                # A service ends its work in order; the others have nothing to finish.
                (process.terminate if words[0] == "serve" else process.kill)()
                process.wait(PATIENCE)

    def normal(self, value: Any, key: str = "") -> Any:
        """The value without what differs from run to run."""
        if isinstance(value, dict):
            return {self.normal(name): self.normal(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.normal(each, key) for each in value]
        if isinstance(value, str):
            if OPAQUE.search(key):
                return "<opaque>"
            value = value.replace(str(self.folder), "<folder>").replace(str(self.source), "<checkout>")
            for pattern, instead in IN_TEXTS:
                value = re.sub(pattern, instead, value)
            return value
        if type(value) not in (int, float):
            return value
        # The version of a person's tokens is made from the time; those of events and states count from 1.
        return "<number>" if NUMBERS.search(key) or (key == "version" and value > 1_000_000) else value


def wait(happened: Callable[[], bool], step: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("the program did not get there")
        time.sleep(step)


def parsed(text: str) -> Any:
    """JSON as it is; other text by lines, its boxes taken off."""
    try:
        return json.loads(text)
    except ValueError:
        lines = (ANSI.sub("", line).strip(" │╭╮╰╯─") for line in text.splitlines()[:40])
        return [line[:300] for line in lines if line]


def metrics(text: str) -> dict[str, str]:
    """Every number that Prometheus is told, without its value and without the routes that were called."""
    lines = (re.sub(r'((method|route|status)="[^"]*",?)+', "...", line) for line in text.splitlines())
    return {line if line.startswith("#") else line.rsplit(" ", 1)[0]: "<number>" for line in sorted(lines) if line}


def call(
    address: str, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, str]:
    parts = urlsplit(address)
    sent = (headers or {}) | ({"Content-Type": "application/json"} if body is not None else {})
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)) as connection:
        connection.request(method, quote(path, safe="/?&=%:"), body.encode() if body is not None else None, sent)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("content-type", ""), answer.read().decode("utf-8", "replace")
