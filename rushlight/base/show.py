"""RUSHLIGHT_SHOW: which layers print themselves to stderr while they work.

Enters: the environment variable, words separated by commas (dispatch, graph, lowered, schedule, loops, llvm, asm,
fallback, recompiles, breaks, cache). Leaves: `is_shown(word)` and `show(word, title, text)`. A word that names no layer
is warned of once, with those that do.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache

from . import environment


def shown_words() -> frozenset[str]:
    """The words asked for; read anew at each call, so that a test or a debugger may change them."""
    return words_of(environment.get("RUSHLIGHT_SHOW"))


@cache
def words_of(text: str) -> frozenset[str]:
    """The words of the variable's text; those that nobody listens to are named, once."""
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    known = environment.VARIABLES["RUSHLIGHT_SHOW"].values
    if unknown := sorted(words.difference(known)):
        warnings.warn(
            f"RUSHLIGHT_SHOW: expected some of {', '.join(known)}, got {', '.join(map(repr, unknown))}.",
            RuntimeWarning,
            stacklevel=3,
        )
    return words & frozenset(known)


def is_shown(word: str) -> bool:
    """Whether the layer `word` should print."""
    return word in shown_words()


def show(word: str, title: str, text: str) -> None:
    """Print one layer's text under a heading."""
    print(f"--- {word}: {title}\n{text.rstrip()}", file=sys.stderr, flush=True)
