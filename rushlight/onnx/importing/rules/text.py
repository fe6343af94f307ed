"""Strings: arrays of objects, which NumPy carries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .... import _C
from ....tensors.interop import from_numpy, tensor
from ..table import rule

LARGEST_COLUMN = 1 << 24


def _array(values: Sequence[Any], shape: Sequence[int]) -> Any:
    import numpy  # noqa: PLC0415

    found = numpy.empty(len(values), object)
    found[:] = values
    return found.reshape(shape)


@rule("StringConcat", since=20, closed=True, gives=lambda numbers, settings: 8)
def string_concat(x: Any, y: Any) -> Any:
    import numpy  # noqa: PLC0415

    found = numpy.asarray(x, object) + numpy.asarray(y, object)
    return found if isinstance(found, numpy.ndarray) else _array([found], ())


@rule("StringSplit", since=20, closed=True, gives=lambda numbers, settings: [8, 7])
def string_split(x: Any, *, delimiter: str | None = None, maxsplit: int | None = None, count: int) -> tuple:
    most = -1 if maxsplit is None else maxsplit
    parts = [v.split(delimiter or None, most) for v in x.reshape(-1)]
    widest = max([len(p) for p in parts], default=0)
    flat = [word for p in parts for word in [*p, *[""] * (widest - len(p))]]
    counts = tensor([len(p) for p in parts], dtype=_C.int64).reshape(x.shape)
    return _array(flat, (*x.shape, widest)), counts


@rule("StringNormalizer", since=10, closed=True, gives=lambda numbers, settings: 8)
def string_normalizer(x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0,
                      locale: str | None = None,
                      stopwords: Sequence[str] | None = None) -> Any:
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[case_change_action]
    stopped = set(stopwords or ()) if is_case_sensitive else {w.lower() for w in stopwords or ()}
    rows = [x] if x.ndim == 1 else list(x)
    kept = [[change(w) for w in row if (w if is_case_sensitive else w.lower()) not in stopped] for row in rows]
    kept = [row or [""] for row in kept]
    if x.ndim == 1:
        return _array(kept[0], (len(kept[0]),))
    return _array([w for row in kept for w in row], (len(kept), len(kept[0])))


@rule("RegexFullMatch", since=20, closed=True, gives=lambda numbers, settings: 9)
def regex_full_match(x: Any, *, pattern: str) -> Any:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"RegexFullMatch: {pattern!r} is no pattern: {error}") from error
    return tensor([compiled.fullmatch(v) is not None for v in x.reshape(-1)], dtype=_C.bool).reshape(x.shape)


@rule("TfIdfVectorizer", since=9, closed=True, gives=lambda numbers, settings: 1)
def tf_idf_vectorizer(x: Any, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
                      ngram_counts: Sequence[int], ngram_indexes: Sequence[int],
                      pool_int64s: Sequence[int] | None = None,
                      pool_strings: Sequence[str] | None = None, weights: Sequence[float] | None = None) -> Any:
    """How often runs of words (or numbers) occur, of a list of runs that is given."""
    import numpy  # noqa: PLC0415

    pool = list(pool_int64s if pool_int64s is not None else pool_strings or [])
    bounds = [*ngram_counts, len(pool)]
    if sorted(bounds) != bounds or bounds[0] < 0 or not ngram_indexes or min(ngram_indexes) < 0 or max(
            ngram_indexes) > LARGEST_COLUMN or min_gram_length < 1:
        raise ValueError("TfIdfVectorizer: ngram_counts should ascend within the pool, and ngram_indexes be columns,"
                         f" got {list(ngram_counts)[:9]} of {len(pool)}, and {list(ngram_indexes)[:9]}")
    grams, k = {}, 0
    for size, begin in enumerate(ngram_counts, 1):
        end = ngram_counts[size] if size < len(ngram_counts) else len(pool)
        for at in range(begin, end, size):
            grams[tuple(pool[at : at + size])] = k
            k += 1
    values = x.tolist()
    rows = values if x.ndim == 2 else [values]
    found = numpy.zeros((len(rows), max(ngram_indexes) + 1), numpy.float32)
    for r, row in enumerate(rows):
        for size in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, max_skip_count + 2 if size > 1 else 2):
                if (size - 1) * skip >= len(row):
                    break
                for at in range(len(row) - (size - 1) * skip):
                    which = grams.get(tuple(row[at : at + (size - 1) * skip + 1 : skip]))
                    if which is not None:
                        _count(found[r], ngram_indexes[which], mode, weights[which] if weights else 1.0)
    if mode == "TFIDF" and weights:
        scale = numpy.zeros(found.shape[1], numpy.float32)
        for which, place in enumerate(ngram_indexes):
            scale[place] = weights[which]
        found = found * scale
    return from_numpy(found if x.ndim == 2 else found[0])


def _count(row: Any, place: int, mode: str, weight: float) -> None:
    if mode == "IDF":
        row[place] = weight
    else:
        row[place] += 1
