"""Descriptions of random words: Korean, English and HTML, no two alike.

Descriptions put together from `words.PARAGRAPHS` repeat between products and compress to a sixth, which flatters
whoever stores them. Random words that are as unevenly frequent as those of a language compress as a shop's text does:
details of 14 KB to about 1/2.6 with zstd at level 1 to 3.
"""

from functools import cache
from random import Random

from sellerwatch.simulator.rng import seeded_rng

_FIRST_SYLLABLE, _ALL_SYLLABLES = 0xAC00, 11_172
_SYLLABLES, _KOREAN_WORDS, _ENGLISH_WORDS = 300, 1_500, 300
_CONSONANTS, _VOWELS = "bcdfghklmnprstvw", "aeiou"
_PIECES = 16_384
#: What follows a word, and how often in 1,000.
_ENDS = {
    " ": 780,
    ", ": 60,
    ". ": 50,
    "<br>\n": 25,
    ".</p>\n<p>": 20,
    '.</p>\n<p style="text-align:center"><span style="font-size:14px">': 25,
    "</span></li>\n<li><span>": 20,
    " <strong>100%</strong> ": 15,
    " &amp; ": 5,
}


def random_html(rng: Random, size: int) -> str:
    """Return paragraphs of about `size` bytes of UTF-8."""
    pieces, average = _pieces()
    return f"<p>{''.join(rng.choices(pieces, k=max(1, round(size / average))))}</p>"


@cache
def _pieces() -> tuple[tuple[str, ...], float]:
    """Return words with what follows them, each as often as its word is used, and their mean size in bytes.

    The r-th word is used 1/r times as often as the first (Zipf's law). All worlds have the same words.
    """
    rng = seeded_rng("words")
    syllables = [chr(_FIRST_SYLLABLE + at) for at in rng.sample(range(_ALL_SYLLABLES), _SYLLABLES)]
    uneven = [rank**-0.6 for rank in range(1, _SYLLABLES + 1)]
    words = ["".join(rng.choices(syllables, uneven, k=rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(_KOREAN_WORDS)]
    words += ["".join(_english(rng) for _ in range(rng.randint(1, 4))) for _ in range(_ENGLISH_WORDS)]
    rng.shuffle(words)
    used = rng.choices(words, [1 / rank for rank in range(2, len(words) + 2)], k=_PIECES)
    ends = rng.choices(list(_ENDS), list(_ENDS.values()), k=_PIECES)
    pieces = tuple(map(str.__add__, used, ends))
    return pieces, sum(len(piece.encode()) for piece in pieces) / len(pieces)


def _english(rng: Random) -> str:
    return rng.choice(_CONSONANTS) + rng.choice(_VOWELS) + rng.choice(("", "", "n", "r"))
