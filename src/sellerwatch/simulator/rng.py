"""Rng that repeats itself."""

from random import Random


def dice(*seed: object) -> Random:
    """Dice for one purpose: the same parts of a seed give the same throws, in any process.

    Seeded with text, which `Random` digests itself; `hash()` would differ from process to process.
    """
    return Random(":".join(map(str, seed)))  # noqa: S311 - games, not secrets
