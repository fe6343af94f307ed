"""What an engine is told: how large its cache is, and how much runs at a time.

Enters: numbers of the command line. Leaves: `Settings`. Refuses: those that make no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

LEAST = {"block_size": 1, "num_blocks": 0, "max_num_seqs": 1, "max_model_len": 0, "chunk": 1}


@dataclass(frozen=True)
class Settings:
    """Sizes of an engine. 0 where the engine shall choose."""

    block_size: int = 16            # positions of a block
    num_blocks: int = 0             # of the cache
    max_num_seqs: int = 64          # sequences that are decoded together
    max_model_len: int = 0          # words of a prompt and what follows it
    chunk: int = 256                # tokens of a step: what decoding leaves of them, prompts may have
    device: str = "cpu"
    dtype: str = ""                 # the model's own
    shares: bool = True             # whether equal beginnings are computed once
    captures: bool = True           # whether steps of a device are captured and replayed

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"engine: {name} must be an integer of at least {least}, got {value!r}")
        if self.block_size > 256:
            raise ValueError(f"engine: block_size must be at most 256, got {self.block_size}")
        if self.num_blocks == 1:
            raise ValueError("engine: num_blocks must be at least 2, since one is kept apart, or 0: as many as fit")

    def told(self) -> dict[str, object]:
        """The same as a dict, for another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
