"""One target, driven by atheris: `tests/fuzz/soak.py` starts it in a process of its own, since libFuzzer ends it.

Inputs that reach new code are kept in the corpus; an exception ends the process with the input in a file.
"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import atheris
from tests.fuzz.mutation import VALUES, with_values


def main() -> None:
    name, corpus, is_planted, *options = sys.argv[1:]
    # What is imported here reports which of its lines were reached.
    with atheris.instrument_imports(include=["sellerwatch"]):
        from tests.fuzz.plants import PLANTS, planted
        from tests.fuzz.targets import TARGETS

    from tests.builders import NOW

    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.migrate import upgrade

    target = TARGETS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = folder / "fuzz.db"
        engine = make_engine(f"sqlite:///{database}")
        upgrade(engine, NOW)
        engine.dispose()
        run = stack.enter_context(target.opened(database))
        if is_planted == "planted":
            stack.enter_context(planted(PLANTS[name]))
        (folder / "tokens").write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens))
        driving = [sys.argv[0], corpus, f"-dict={folder / 'tokens'}", *options]
        atheris.Setup(driving, run, custom_mutator=_mutated)
        atheris.Fuzz()


def _mutated(data: bytes, longest: int, seed: int) -> bytes:
    """Replace values of the JSON in every second input that has some: changed bytes seldom leave it readable."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        places = [(rng.randrange(4096), rng.choice(VALUES)) for _ in range(rng.randint(1, 3))]
        changed = with_values(data, places)
        if changed != data and len(changed) <= longest:
            return changed
    mutated: bytes = atheris.Mutate(data, longest)
    return mutated


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main()
