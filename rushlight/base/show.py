"""RUSHLIGHT_SHOW: which layers print themselves to stderr while they work.

Enters: the environment variable, words separated by commas (dispatch, graph, lowered, schedule, loops, llvm, asm,
fallback, recompiles, breaks, cache, lazy). Leaves: `is_shown(word)` and `show(word, title, text)`. A word that names
no layer is warned of once, with those that do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache

from . import environment

_listened: Mapping[str, str] = {}      # words that logs want, and what they call them
_tell: Callable[[str, str, str], None] = print


def listen(words: Mapping[str, str], tell: Callable[[str, str, str], None]) -> None:
    """From now on `tell(name, title, text)` is told what these words show, too."""
    global _listened, _tell
    _listened, _tell = words, tell


def shown_words() -> frozenset[str]:
    """The words asked for; read anew at each call, so that a test or a debugger may change them."""
    found = words_of(environment.get("RUSHLIGHT_SHOW"))
    return found.union(_listened) if _listened else found


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
    if word in _listened:
        _tell(_listened[word], title, text)
        if word not in words_of(environment.get("RUSHLIGHT_SHOW")):
            return
    print(f"--- {word}: {title}\n{text.rstrip()}", file=sys.stderr, flush=True)
