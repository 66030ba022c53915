"""Runs the program in many processes and pays for its imports once: loads it, then forks for each request.

A request is one line of JSON on standard input (arguments, environment, folder, files for the two outputs); the answer
is a line with the exit code. What a run changes ends with its process, as it does for a person.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from typing import Any

from sellerwatch.cli.main import COMMANDS, main, program
from sellerwatch.cli.session import command_session

for name in ("alembic.command", "sellerwatch.compose.service", "sellerwatch.simulator.simulator", "uvloop"):
    importlib.import_module(name)
for place in COMMANDS.values():
    importlib.import_module(f"sellerwatch.cli.{place.partition(':')[0]}")
program()
os.environ["SELLERWATCH_DATABASE_URL"] = "sqlite://"
with command_session(make=True) as first:
    assert first.operations.deadline
gc.freeze()


def become(request: dict[str, Any]) -> int:
    """In the child: be `sellerwatch ...` until it ends."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in ((1, request["stdout"]), (2, request["stderr"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = ["sellerwatch", *request["arguments"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            code = become(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
