"""RUSHLIGHT_SHOW: which layers print themselves to stderr while they work.

Enters: the environment variable, words separated by commas (dispatch, graph, loops, llvm, asm, ...).
Leaves: `is_shown(word)` and `show(word, title, text)`. Refuses: nothing; unknown words are someone else's.
"""

from __future__ import annotations

import os
import sys


def shown_words() -> frozenset[str]:
    """The words asked for; read anew at each call, so that a test or a debugger may change them."""
    return frozenset(word.strip() for word in os.environ.get("RUSHLIGHT_SHOW", "").split(",") if word.strip())


def is_shown(word: str) -> bool:
    """Whether the layer `word` should print."""
    return word in shown_words()


def show(word: str, title: str, text: str) -> None:
    """Print one layer's text under a heading."""
    print(f"--- {word}: {title}\n{text.rstrip()}", file=sys.stderr, flush=True)
