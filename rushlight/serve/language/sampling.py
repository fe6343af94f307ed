"""The next word, from logits: greedily, or drawn as a request asks.

Enters: a row of logits for each sequence, what was asked for (`Sampling`), and the words so far. Leaves: `Chosen`
words, with logarithms of probabilities where they were asked for: those of the model, before anything is bent. Refuses:
settings out of range, when a `Sampling` is made.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import _C
from ...op import find_op
from ...tensors.interop import tensor
from .constraint import Constraint

MOST_LOGPROBS = 20
MOST_BIAS = 100.0


@dataclass(frozen=True)
class Sampling:
    """How words are chosen, and when to stop."""

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0                       # 0: all
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    logprobs: int | None = None          # how many of the likeliest words to tell of, beside the chosen one
    prompt_logprobs: int | None = None   # the same for the words of the prompt
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    form: str | None = None              # a JSON schema that the answer follows, as text; "" is any object

    def __post_init__(self) -> None:
        for name, low, high in RANGES:
            value = getattr(self, name)
            if type(value) not in (int, float) or not low <= value <= high:
                raise ValueError(f"{name}: expected a number from {low} to {high}, got {value!r}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a number above 0 and up to 1, got {self.top_p!r}")
        if not 0 < self.repetition_penalty <= 100:
            raise ValueError(f"repetition_penalty: expected a number above 0, got {self.repetition_penalty!r}")

    @property
    def is_greedy(self) -> bool:
        return self.temperature < 1e-5

    @property
    def is_plain(self) -> bool:
        """Whether the likeliest word is all that is asked for."""
        return self.is_greedy and self.logprobs is None and not self.bends and self.form is None

    @property
    def bends(self) -> bool:
        """Whether logits change with the words so far, or by themselves."""
        return bool(
            self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1 or self.logit_bias
        )


RANGES = (
    ("max_tokens", 0, 1 << 31), ("temperature", 0, 100), ("top_p", 0, 1), ("top_k", 0, 1 << 31), ("min_p", 0, 1),
    ("presence_penalty", -2, 2), ("frequency_penalty", -2, 2), ("repetition_penalty", 0, 100),
)


@dataclass
class Chosen:
    """A word; the logarithm of its probability, and the likeliest words with theirs, where they were asked for."""

    word: int
    logprob: float | None = None
    likeliest: list[tuple[int, float]] | None = None


class Chooser:
    """What one sequence draws with: its settings, its random numbers, and how often words occurred."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int], constraint: Constraint | None = None,
                 ends: Sequence[int] = ()) -> None:
        self.sampling, self.constraint, self.ends = sampling, constraint, ends
        self.counts: Counter[int] = Counter()
        self.prompt = frozenset(prompt) if sampling.repetition_penalty != 1 else frozenset()
        self.generator = None
        if not sampling.is_greedy:
            self.generator = _C.Generator()
            seed = sampling.seed if sampling.seed is not None else int.from_bytes(os.urandom(8), "little")
            self.generator.manual_seed(seed & ((1 << 63) - 1))

    def choose(self, row: Any, likeliest: int) -> Chosen:
        """The word that follows, from a row of logits on the host; `likeliest` is the place of its maximum."""
        s = self.sampling
        bent = self.bent(row) if s.bends else row
        if self.constraint is not None:
            bent = bent.masked_fill(~self.constraint.allowed(self.ends), -math.inf)
        if s.is_greedy:
            word = likeliest if bent is row else int(bent.argmax())
        else:
            word = self.drawn(bent)
        return told(row, word, s.logprobs)

    def note(self, word: int) -> None:
        """A word was chosen."""
        if self.sampling.bends:
            self.counts[word] += 1
        if self.constraint is not None:
            self.constraint.note(word)

    @property
    def is_done(self) -> bool:
        """Whether the answer is whole, and nothing can follow."""
        return self.constraint is not None and self.constraint.is_done

    def bent(self, row: Any) -> Any:
        """Logits with penalties for what occurred, and with what was asked to be added."""
        s, row = self.sampling, row.clone()
        if s.repetition_penalty != 1:
            seen = tensor(sorted(self.prompt | self.counts.keys()), dtype=_C.int64)
            found = row[seen]
            row[seen] = (found / s.repetition_penalty).where(found > 0, found * s.repetition_penalty)
        if self.counts and (s.presence_penalty or s.frequency_penalty):
            words = tensor(list(self.counts), dtype=_C.int64)
            times = tensor(list(self.counts.values()), dtype=row.dtype)
            row[words] = row[words] - times * s.frequency_penalty - s.presence_penalty
        if s.logit_bias:
            words = tensor(list(s.logit_bias), dtype=_C.int64)
            row[words] = row[words] + tensor(list(s.logit_bias.values()), dtype=row.dtype)
        return row

    def drawn(self, row: Any) -> int:
        """A word by chance, of those that are left."""
        s = self.sampling
        scores = row.to(_C.float64) / s.temperature
        words = None
        if s.top_k and s.top_k < scores.shape[0]:
            scores, words = scores.topk(s.top_k)
        elif s.top_p < 1:
            scores, words = scores.sort(descending=True, stable=True)
        weights = scores.softmax(0)
        if s.min_p > 0:
            weights = weights.where(weights >= weights.max() * s.min_p, 0.0)
        sums = weights.cumsum(0)
        if s.top_p < 1:      # sorted: the first words that reach the share are kept
            kept = max(1, int(((sums - weights) < s.top_p * float(sums[-1])).sum()))
            sums = sums[:kept]
        at = float(find_op("rand")((), dtype=_C.float64, generator=self.generator)) * float(sums[-1])
        place = min(int((sums <= at).sum()), sums.shape[0] - 1)
        return place if words is None else int(words[place])


def told(row: Any, word: int, count: int | None) -> Chosen:
    """A word with what is asked to be told of its neighbours."""
    if count is None:
        return Chosen(word)
    logs = row.log_softmax(0)
    likeliest: list[tuple[int, float]] = []
    if count:
        values, words = logs.topk(min(count, logs.shape[0]))
        likeliest = list(zip(words.tolist(), values.tolist(), strict=True))
    own = float(logs[word])
    return Chosen(word, own if math.isfinite(own) else -9999.0, likeliest)


def choose(logits: Any, likeliest: Any, choosers: Sequence[Chooser]) -> list[Chosen]:
    """The next words of several sequences, the n-th from row n; `likeliest` are the rows' maxima."""
    tops = likeliest.tolist()
    if all(c.sampling.is_plain for c in choosers):
        return [Chosen(word) for word in tops[: len(choosers)]]
    rows = logits if logits.device.type == "cpu" else logits.to("cpu")
    found = []
    for n, chooser in enumerate(choosers):
        plain = chooser.sampling.is_plain
        found.append(Chosen(tops[n]) if plain else chooser.choose(rows[n], tops[n]))
    return found
