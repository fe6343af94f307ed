"""Functions of tiles, compiled once for all kernels that call them: nine tenths of a product's text is theirs.

Enters: the name of a function, as an object calls it. Leaves: what the cache of kernels asks of a nest, and the object
file: the name says all that it depends on, so an object that was kept needs no list of what it calls. Refuses names
that begin like those of tiles and are none.
"""

from __future__ import annotations

from ...base.digest import digest
from ...loops.record import Record
from ..text.targets import vector_bits

KINDS = ("multiply_", "keep_", "rows_", "lines_", "pack_", "pairs_", "exchange_")


class TileObject(Record):
    """What the kernel cache asks of a nest."""

    name: str
    params: tuple[str, ...] = ()

    def digest(self) -> bytes:
        """The cache's key holds the processor and the generator's sources besides."""
        return digest(f"{self.name} {vector_bits()}".encode())


def tile_object(name: str) -> TileObject | None:
    """What the function `name` is kept by; None if it is none of tiles."""
    return TileObject(name) if name.startswith(KINDS) else None


def make_tiles(tiles: TileObject) -> bytes:
    """The object file with the function, and those that it alone calls."""
    from ..llvm.cpu import compile_ir, host_target  # LLVM, where a function is new
    from ..tiles.functions import named_function

    function = named_function(tiles.name, host_target())
    if function is None:
        raise ValueError(f"a kernel calls {tiles.name}, and no function of tiles has that name")
    declared = [*function.intrinsics(), *(other.declaration() for other in function.callees())]
    text = [f'target triple = "{host_target().triple}"', *declared, *function.texts("").values(), ""]
    code = compile_ir("\n".join(text), host_target(), by_hand=True)
    assert isinstance(code, bytes), "an object was asked for"
    return code
