"""Blocks of the cache: which are free, which belong to whom, and which hold a beginning that others share.

Enters: asks for blocks, and what was written to them. Leaves: numbers of blocks. A full block is known by a digest of
its words and of all words before it; a sequence that begins alike takes it over instead of computing it. Blocks that
nobody uses keep what they hold until they are needed, those unused for longest first. Refuses: to hand out more than
there are.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence

SCRATCH = 0      # the block that tokens of no sequence are written to; nobody gets it


def digest_of(before: bytes, words: Sequence[int]) -> bytes:
    """What names a full block: its words, and what names the block before it."""
    return hashlib.blake2b(before + array("q", words).tobytes(), digest_size=16).digest()


class Blocks:
    """`count` blocks of `size` positions."""

    def __init__(self, count: int, size: int, shares: bool = True) -> None:
        if count < 2 or size < 1:
            raise ValueError(f"cache: expected at least 2 blocks of at least 1 position, got {count} of {size}")
        self.count, self.size, self.shares = count, size, shares
        self.users = [0] * count
        self.names: list[bytes | None] = [None] * count
        self.known: dict[bytes, int] = {}
        self.unused: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, count))    # the first is taken first

    @property
    def free(self) -> int:
        return len(self.unused)

    @property
    def usage(self) -> float:
        """The part of all blocks that sequences hold."""
        return 1.0 - len(self.unused) / (self.count - 1)

    def take(self) -> int:
        """A block that nobody uses, whatever it held."""
        if not self.unused:
            raise RuntimeError("cache: no block is free")
        block, _ = self.unused.popitem(last=False)
        self.forget(block)
        self.users[block] = 1
        return block

    def forget(self, block: int) -> None:
        name = self.names[block]
        if name is not None:
            self.names[block] = None
            if self.known.get(name) == block:
                del self.known[name]

    def found(self, words: Sequence[int], root: bytes = b"") -> tuple[list[int], list[bytes]]:
        """Blocks that hold a beginning of these words, and their names; nobody holds them for it yet. `root` names
        what else must be alike."""
        blocks: list[int] = []
        names: list[bytes] = []
        before = root
        for start in range(0, len(words) - self.size + 1 if self.shares else 0, self.size):
            before = digest_of(before, words[start : start + self.size])
            block = self.known.get(before)
            if block is None:
                break
            blocks.append(block)
            names.append(before)
        return blocks, names

    def hold(self, blocks: Sequence[int]) -> None:
        """One more user for each."""
        for block in blocks:
            if not self.users[block]:
                del self.unused[block]
            self.users[block] += 1

    def name(self, block: int, name: bytes) -> None:
        """A block is full: others that begin alike may use it."""
        if self.shares and name not in self.known and self.names[block] is None:
            self.names[block] = name
            self.known[name] = block

    def give_back(self, blocks: Sequence[int]) -> None:
        """One user less for each. The ends of sequences are taken before their beginnings, which more may share."""
        for block in reversed(blocks):
            self.users[block] -= 1
            if not self.users[block]:
                self.unused[block] = None
                if self.names[block] is None:
                    self.unused.move_to_end(block, last=False)

    def clear(self) -> None:
        """Forget what blocks hold that nobody uses."""
        for block in self.unused:
            self.forget(block)
