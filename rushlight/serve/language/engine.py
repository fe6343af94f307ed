"""Continuous batching: each step decodes every running sequence, and reads on in prompts that wait.

Enters: sequences of words with a `Sampling` each, at any time. Leaves: `Event`s, step by step: a word, and in the end
why it was the last. A sequence is what it has computed (keys and values in blocks) and the words it has yet to; reading
a prompt and decoding are the same. Where blocks run out the sequence that came last is put aside and begins again later
with all its words, so that what follows is the same. Refuses: prompts that no step could hold, with what would fit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...autograd.grad_mode import inference_mode
from .blocks import Blocks, digest_of
from .config import Config, read_config
from .constraint import Constraints
from .model import Decoder
from .runner import Runner
from .sampling import Chooser, Chosen, Sampling, choose, told
from .settings import Settings
from .weights import Weights

CACHE_BYTES = 1 << 30       # of the cache, where nobody says how many blocks it has
PART_OF_DEVICE = 0.85       # of the memory that a device has left
FULL_SEQUENCES = 4          # of the longest length that the cache holds at least, unless told otherwise


@dataclass
class Sequence_:
    """Words, how many of them are computed, and where."""

    name: str
    words: list[int]
    sampling: Sampling
    chooser: Chooser
    prompt: int                      # words that were given
    after: str | None = None         # the sequence whose prompt is computed first, since this one begins alike
    blocks: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    computed: int = 0
    cached: int = -1                 # words of the prompt that were there already; -1 before it is known
    row: int = -1

    @property
    def left(self) -> int:
        """Words that are not computed yet."""
        return len(self.words) - self.computed


@dataclass
class Event:
    """What became of a sequence in a step: a word, the prompt's probabilities, the end."""

    name: str
    chosen: Chosen | None = None
    finish: str | None = None        # "stop" or "length"
    cached: int = 0
    prompt: list[Chosen] | None = None


@dataclass
class Counts:
    """What an engine counted since it began."""

    decode_steps: int = 0
    generated: int = 0
    read: int = 0                    # words of prompts that were computed
    shared: int = 0                  # and those that did not have to be
    preempted: int = 0


class Engine:
    """A model with its cache. `add` sequences, then `step` while `busy`."""

    def __init__(self, decoder: Decoder, settings: Settings | None = None, folder: str = "") -> None:
        self.settings = s = settings or Settings()
        self.decoder, self.config, self.limit = decoder, decoder.config, decoder.limit
        self.max_len = length_of(decoder.config, s)
        size = s.block_size
        pages = -(-self.max_len // size)
        count = s.num_blocks or blocks_that_fit(decoder, size, pages, s.max_num_seqs)
        self.blocks = Blocks(count, size, s.shares)
        self.max_len = min(self.max_len, (count - 1) * size)
        self.runner = Runner(decoder, count, size, s.max_num_seqs, pages, s.captures)
        self.running: list[Sequence_] = []
        self.waiting: deque[Sequence_] = deque()
        self.rows = list(range(s.max_num_seqs - 1, -1, -1))
        self.counts = Counts()
        self.prompts: dict[str, list[Chosen]] = {}
        self.constraints = Constraints(folder, decoder.config.words)

    @classmethod
    def load(cls, folder: str, settings: Settings | None = None) -> Engine:
        """The model of a folder."""
        s = settings or Settings()
        config = read_config(folder)
        from ... import _C  # names of types

        dtype = getattr(_C, s.dtype) if s.dtype else None
        with Weights(folder) as weights:
            return cls(Decoder(config, weights, dtype, s.device, length_of(config, s)), s, folder)

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)

    # --- what comes and goes

    def add(self, name: str, words: Sequence[int], sampling: Sampling, after: str | None = None) -> None:
        """A prompt to be continued. `after`: the name of one that begins alike and was added before."""
        if not words:
            raise ValueError("prompt: expected at least one word, got none")
        outside = [w for w in words if not 0 <= w < self.config.words]
        if outside:
            raise ValueError(f"prompt: expected words in [0, {self.config.words}), got {outside[0]}")
        if len(words) + min(1, sampling.max_tokens) > self.max_len:
            raise ValueError(
                f"prompt: expected at most {self.max_len - 1} words, so that one can follow within {self.max_len}, got"
                f" {len(words)}"
            )
        ends = () if sampling.ignore_eos else self.config.ends
        chooser = Chooser(sampling, words, self.constraints.of(sampling.form), (*ends, *sampling.stop_ids))
        self.waiting.append(Sequence_(name, list(words), sampling, chooser, len(words), after))

    def cancel(self, name: str) -> None:
        """Nobody wants the rest of a sequence; its blocks are free at once."""
        for s in self.running:
            if s.name == name:
                self.leave(s)
                return
        self.waiting = deque(s for s in self.waiting if s.name != name)

    def leave(self, s: Sequence_) -> None:
        """A sequence stops running: its row and its blocks are free."""
        self.running.remove(s)
        self.blocks.give_back(s.blocks)
        self.rows.append(s.row)
        self.prompts.pop(s.name, None)
        s.blocks, s.names, s.computed, s.row = [], [], 0, -1

    # --- a step

    @inference_mode()
    def step(self) -> list[Event]:
        """One step of the model over all that can run."""
        work = self.scheduled()
        if not work:
            return []
        tokens: list[int] = []
        positions: list[int] = []
        rows: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        spans: list[int] = []
        size = self.blocks.size
        for s, count in work:
            start = len(tokens)
            places = range(s.computed, s.computed + count)
            tokens += s.words[s.computed : s.computed + count]
            positions += places
            rows += [s.row] * count
            slots += [s.blocks[p // size] * size + p % size for p in places]
            spans += self.spans(s, places)
            if s.sampling.prompt_logprobs is not None and s.computed < s.prompt:
                wanted += range(start, start + count)
            elif s.computed + count == len(s.words):
                wanted.append(len(tokens) - 1)
        logits, likeliest = self.runner.run(tokens, positions, rows, slots, wanted or [0], spans)
        return self.answered(work, logits, likeliest)

    def answered(self, work: list[tuple[Sequence_, int]], logits: Any, likeliest: Any) -> list[Event]:
        """What the sequences of a step make of its logits."""
        self.counts.decode_steps += 1
        events, at, asking, places = [], 0, [], []
        for s, count in work:
            start = s.computed
            s.computed += count
            self.counts.read += max(0, min(s.computed, s.prompt) - start)
            self.name_full_blocks(s)
            if s.sampling.prompt_logprobs is not None and start < s.prompt:
                self.read_prompt(s, start, logits[at : at + count])
                at += count
                places.append(at - 1)
            elif s.computed == len(s.words):
                at += 1
                places.append(at - 1)
            if s.computed == len(s.words):
                asking.append(s)
            elif s.sampling.prompt_logprobs is not None and start < s.prompt:
                places.pop()
        if not asking:
            return []
        if places != list(range(len(places))):
            chosen_rows = likeliest.new_tensor(places)
            logits, likeliest = logits.index_select(0, chosen_rows), likeliest.index_select(0, chosen_rows)
        for s, chosen in zip(asking, choose(logits, likeliest, [s.chooser for s in asking]), strict=True):
            events.append(self.continued(s, chosen))
        return events

    def continued(self, s: Sequence_, chosen: Chosen) -> Event:
        """A sequence has its next word."""
        event = Event(s.name, chosen, None, max(0, s.cached))
        if len(s.words) == s.prompt:
            event.prompt = self.prompts.pop(s.name, None)
        done = len(s.words) - s.prompt + 1
        if s.sampling.max_tokens == 0:
            event.chosen, event.finish = None, "length"
        else:
            s.words.append(chosen.word)
            s.chooser.note(chosen.word)
            self.counts.generated += 1
            ends = () if s.sampling.ignore_eos else self.config.ends
            if chosen.word in ends or chosen.word in s.sampling.stop_ids or s.chooser.is_done:
                event.finish = "stop"
            elif done >= s.sampling.max_tokens or len(s.words) >= self.max_len:
                event.finish = "length"
        if event.finish:
            self.leave(s)
        elif self.config.family.restarts and self.limit and len(s.words) == self.limit + 1:
            self.leave(s)
            self.waiting.appendleft(s)
        return event

    # --- texts whose length changes how positions turn

    def spans(self, s: Sequence_, places: range) -> list[int]:
        """How long the text is that words are computed in: the prompt is read at once, then it grows word by word.
        Families that restart compute all of it anew once it is long. Nothing where angles do not depend on it."""
        if not self.limit:
            return []
        if self.config.family.restarts:
            return [len(s.words)] * len(places)
        return [max(s.prompt, place + 1) for place in places]

    def root(self, s: Sequence_) -> bytes:
        """What names the beginning of a text, so that only those are shared whose positions turned alike."""
        span = len(s.words) if self.config.family.restarts else s.prompt
        if not self.limit or span <= self.limit:
            return b""
        return b"long" if all(t.kind == "longrope" for t in self.config.turns if t.limit) else str(span).encode()

    def read_prompt(self, s: Sequence_, start: int, logits: Any) -> None:
        """How likely the prompt's own words were."""
        found = self.prompts.setdefault(s.name, [])
        for n, row in enumerate(logits.to("cpu")):
            following = start + n + 1
            if len(found) + 1 == following and following < s.prompt:
                found.append(told(row, s.words[following], s.sampling.prompt_logprobs))

    def name_full_blocks(self, s: Sequence_) -> None:
        """Blocks that are full now can be shared."""
        size = self.blocks.size
        while self.blocks.shares and (len(s.names) + 1) * size <= s.computed:
            n = len(s.names)
            name = digest_of(s.names[-1] if n else self.root(s), s.words[n * size : (n + 1) * size])
            s.names.append(name)
            self.blocks.name(s.blocks[n], name)

    # --- who runs

    def scheduled(self) -> list[tuple[Sequence_, int]]:
        """The sequences of a step, and how many words of each."""
        work: list[tuple[Sequence_, int]] = []
        budget, n = self.settings.chunk, 0
        preempted = self.counts.preempted
        while n < len(self.running):
            s = self.running[n]
            count = s.left if s.left == 1 else min(s.left, budget)
            if count and self.has_room(s, count):
                work.append((s, count))
                budget -= count if count > 1 or s.computed < s.prompt else 0
            n += 1
        while self.waiting and self.rows and budget > 0 and preempted == self.counts.preempted:
            s = self.waiting[0]
            if s.after is not None and self.is_reading(s.after):
                break
            if not self.admitted(s):
                break
            self.waiting.popleft()
            count = min(s.left, budget)
            self.has_room(s, count)
            work.append((s, count))
            budget -= count
        return work

    def is_reading(self, name: str) -> bool:
        """Whether a sequence has not computed its prompt yet."""
        known = next((s for s in (*self.running, *self.waiting) if s.name == name), None)
        return known is not None and known.computed < known.prompt

    def admitted(self, s: Sequence_) -> bool:
        """A sequence begins to run, if there is room for all of its words."""
        size = self.blocks.size
        scores = s.sampling.prompt_logprobs is not None and s.cached < 0     # all of the prompt is looked at
        blocks, names = ([], []) if scores else self.blocks.found(s.words[:-1], self.root(s))
        whole = -(-(len(s.words) + 1) // size)
        held = sum(not self.blocks.users[b] for b in blocks)
        if self.running and whole - len(blocks) + held > self.blocks.free:
            return False
        self.blocks.hold(blocks)
        s.blocks, s.names, s.computed = blocks, names, len(blocks) * size
        if s.cached < 0:
            s.cached = min(s.computed, s.prompt)
            self.counts.shared += s.cached
        s.row = self.rows.pop()
        self.runner.place(s.row, blocks)
        self.running.append(s)
        return True

    def has_room(self, s: Sequence_, count: int) -> bool:
        """Blocks for `count` more words; sequences that came later are put aside for them, in the end this one."""
        more = -(-(s.computed + count) // self.blocks.size) - len(s.blocks)
        while more > self.blocks.free:
            last = self.running[-1]
            self.leave(last)
            self.waiting.appendleft(last)
            self.counts.preempted += 1
            if last is s:
                return False
        if more > 0:
            new = [self.blocks.take() for _ in range(more)]
            self.runner.place(s.row, new, len(s.blocks))
            s.blocks += new
        return True


def length_of(config: Config, settings: Settings) -> int:
    """Words that a prompt and what follows may have."""
    wanted = settings.max_model_len or config.context
    if config.family.places and wanted > config.context:
        raise ValueError(f"engine: this model knows {config.context} positions, got max_model_len={wanted}")
    return wanted


def blocks_that_fit(decoder: Decoder, size: int, pages: int, sequences: int) -> int:
    """How many blocks the cache gets where nobody says: what memory has room for, and what all sequences can use."""
    page = decoder.bytes_of_page(size)
    if decoder.device.type == "cuda":
        from ...cuda import mem_get_info  # opens the driver, which few programs need

        room = int(mem_get_info(decoder.device)[0] * PART_OF_DEVICE)
    else:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else CACHE_BYTES
        room = min(CACHE_BYTES, here // 4)
    return max(2, min(pages * sequences, max(room // page, pages * min(sequences, FULL_SEQUENCES))) + 1)
