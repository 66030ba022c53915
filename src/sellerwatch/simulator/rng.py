"""Random numbers that repeat."""

from random import Random


def seeded_rng(*seed: object) -> Random:
    """Return an rng for one purpose: the same seed parts give the same numbers, in any process.

    Seeded with text, which `Random` digests itself; `hash()` would differ from process to process.
    """
    return Random(":".join(map(str, seed)))  # noqa: S311 - games, not secrets
