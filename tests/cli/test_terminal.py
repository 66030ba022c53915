"""What others wrote reaches a terminal as text: no escape sequence in it moves the cursor or sets the title."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from rich.text import Text
from tests.kernel.test_untrusted_text import OBEYED

from sellerwatch.cli.output import PlainConsole
from sellerwatch.cli.receiver import _print_reception
from sellerwatch.simulator.receiving import Reception, Violation
from sellerwatch.simulator.wire import json_answer

from .cli_world import CliWorld, CrawledProducts
from .conftest import clean_environment

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b2Jcoat\u202efdp.exe\r\x7f 코트"
SHOWN = "]0;owned[2J2Jcoatfdp.exe 코트"

OnTerminal = Callable[..., str]


@pytest.fixture
def shop(world: CliWorld) -> CrawledProducts:
    made = CrawledProducts(world, products=1)
    made.change(made.items[0], name=EVIL, tags=(EVIL,), origin_country=EVIL)
    made.crawl()
    return made


@pytest.fixture
def on_terminal(warm: subprocess.Popen[str], shop: CrawledProducts, tmp_path: Path) -> OnTerminal:
    """Runs a command whose standard output is a terminal, and returns all that it wrote there."""

    def run(*arguments: str) -> str:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        said: list[bytes] = []

        def listen() -> None:
            # When the terminal has been closed at its other end, reading fails.
            with suppress(OSError):
                while part := os.read(ours, 65536):
                    said.append(part)

        listening = threading.Thread(target=listen)
        listening.start()
        request = {
            "arguments": arguments,
            "environment": clean_environment(DATABASE_URL=f"sqlite:///{shop.world.file}"),
            "folder": str(tmp_path),
            "stdout": os.ttyname(theirs),
            "stderr": str(tmp_path / "stderr"),
        }
        assert warm.stdin is not None
        assert warm.stdout is not None
        warm.stdin.write(json.dumps(request) + "\n")
        warm.stdin.flush()
        assert warm.stdout.readline() == "0\n"
        os.close(theirs)
        listening.join()
        os.close(ours)
        return b"".join(said).decode()

    return run


def test_a_terminal_gets_no_control_character_of_the_marketplace(
    on_terminal: OnTerminal, shop: CrawledProducts
) -> None:
    item = str(shop.items[0])
    for command in (
        ("products", "list"),
        ("products", "show", item),
        ("products", "show", item, "--json"),
        ("products", "raw", item, "--part", "detail"),
        ("products", "raw", item, "--part", "detail", "--json"),
        ("products", "export", "--format", "csv"),
        ("products", "export", "--format", "jsonl"),
        ("outbox", "list", "--json"),
        ("why", item),
        ("changes", "list"),
    ):
        said = on_terminal(*command)
        assert said, command
        without_style = re.sub(r"\x1b\[[012]m", "", said)
        assert not set(without_style) & OBEYED, command
        if command[1] in {"show", "raw", "export"}:
            assert "owned" in said, command


def test_json_on_a_terminal_says_the_same_as_in_a_file(on_terminal: OnTerminal, shop: CrawledProducts) -> None:
    command = ("products", "show", str(shop.items[0]), "--json")
    assert json.loads(on_terminal(*command)) == shop.world.json(*command[:-1])


def test_a_file_gets_what_is_there(shop: CrawledProducts) -> None:
    assert shop.world.json("products", "show", str(shop.items[0]))["productData"]["name"] == EVIL


def test_a_console_writes_its_own_colours_and_nothing_else_that_is_obeyed() -> None:
    screen = io.StringIO()
    PlainConsole(file=screen, force_terminal=True, color_system="standard").print(Text(EVIL, style="red"))
    assert screen.getvalue() == f"\x1b[31m{SHOWN}\x1b[0m\n"


def test_a_line_of_the_receiver_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    _print_reception(
        Reception(json_answer(200, {}), violations=(Violation("key", None, f"idempotency-key is {EVIL}"),))
    )
    assert capsys.readouterr().out == f"  ! idempotency-key is {SHOWN}\n"
