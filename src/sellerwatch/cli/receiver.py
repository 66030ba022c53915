"""`sellerwatch receiver`: the reference receiver, which stores events in a file and checks their sender."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer
import uvloop

from sellerwatch.cli.output import data_out, err, print_facts
from sellerwatch.cli.simulator import listening_problem
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.errors import Failed, Invalid
from sellerwatch.kernel.untrusted_text import without_controls
from sellerwatch.simulator.events import ReceivedEvent
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.receiving import Reception
from sellerwatch.simulator.reference_receiver import ReferenceReceiver, SqliteLedger


@dataclass(eq=False)
class ReceiverFileUnusable(Failed):
    """The file of the reference receiver cannot be opened, or is no database."""

    file: str
    problem: str


@dataclass(eq=False)
class InvalidReceiverSecret(Invalid):
    """The secret given to the reference receiver cannot be a secret."""

    problem: str


def receiver(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 9100,
    db: Path = Path("received.db"),
    secret: str | None = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Examples:

    sellerwatch receiver --port 9100 --db received.db --secret whsec_c2VjcmV0
    SELLERWATCH_PRODUCT_SERVER_URL=http://127.0.0.1:9100/events sellerwatch serve
    """
    try:
        ledger = SqliteLedger(db)
    except sqlite3.Error as error:
        raise ReceiverFileUnusable(file=str(db), problem=str(error)) from None
    with closing(ledger):
        try:
            made = ReferenceReceiver(ledger, secret, _print_line if as_json else _print_reception)
        except ValueError as error:
            raise InvalidReceiverSecret(problem=str(error)) from None
        _serve(made, host, port, db, is_signed=secret is not None, as_json=as_json)
    raise typer.Exit(1 if made.violations else 0)


def _serve(made: ReferenceReceiver, host: str, port: int, db: Path, *, is_signed: bool, as_json: bool) -> None:
    text = Texts("cli_demo")

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with serve(made.answer, host, port) as server:
            facts = {"events": f"{server.url}/events", "db": str(db), "signed": is_signed}
            if as_json:
                _print_json_line(facts)
            else:
                signed = text("receiver.verified" if is_signed else "receiver.unverified")
                print_facts((text(f"receiver.{name}"), value) for name, value in (facts | {"signed": signed}).items())
                err.print(text("simulator.end"), style="dim")
            await stop.wait()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except OSError as error:
        raise listening_problem(error, host, port) from None
    if as_json:
        _print_json_line(made.summary())
    else:
        print_facts((text(f"receiver.{name}"), value) for name, value in made.summary().items())


def _print_reception(reception: Reception) -> None:
    """Print a line for the request, and one for each rule that it broke."""
    event = reception.event
    if event is not None:
        about = f" {event.item_no} v{event.version} {event.seller_id}" if isinstance(event, ReceivedEvent) else ""
        again = f" {Texts('cli_demo')('receiver.again')}" if reception.is_duplicate else ""
        sys.stdout.write(f"{without_controls(f'{event.event_type}{about}{again}')}\n")
    for violation in reception.violations:
        sys.stdout.write(f"  ! {without_controls(violation.rule)}\n")
    sys.stdout.flush()


def _print_line(reception: Reception) -> None:
    event = reception.event
    facts: dict[str, object] = {"status": reception.answer.status, "duplicate": reception.is_duplicate}
    if event is not None:
        facts |= {"eventId": event.event_id, "eventType": event.event_type}
    if isinstance(event, ReceivedEvent):
        facts |= {"itemNo": event.item_no, "version": event.version}
    _print_json_line(facts | {"violations": [each.rule for each in reception.violations]})


def _print_json_line(value: object) -> None:
    data_out.write(orjson.dumps(value) + b"\n")
