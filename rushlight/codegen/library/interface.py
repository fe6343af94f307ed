"""What a library kernel declares, and how one becomes machine code: its name, operands, parameters,
and what it refuses.

Enters: an `Interface` and a `Tile`. Leaves: the text for any target (`text_of`), assembly (`assembly_of`), or a loaded
`Kernel`. LLVM parses and verifies every text; RUSHLIGHT_SHOW=llvm,asm prints it as it prints the kernels of nests.
`INTERFACES` lists all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...base.digest import digest
from ...base.notice import waiting_for
from ...base.show import show, shown_words
from ..stored import cache
from ..stored.cache import Kernel
from ..text.targets import Target, vector_bits
from ..text.writer import Reg, Writer


class Tile(NamedTuple):
    """Sizes the kernels are built around, for one dtype and one width of vectors."""

    element: str
    size: int
    lanes: int
    rows: int          # outputs in a register tile
    vectors: int       # vectors of pixels in a register tile
    dot_rows: int      # register tile of dot products: rows of the left operand, rows of the right
    dot_columns: int
    block: int         # pixels packed at once, at most
    depth: int         # window rows packed at once
    by_lane: bool      # multiply-add takes one lane of a vector as an operand
    masked: bool       # loads and stores take a mask of lanes

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def pitch(self) -> int:
        """Elements between rows of packed pixels: room for a vector past the last, and an odd number of cache lines,
        so that rows spread."""
        return self.odd_lines(self.block + self.lanes)

    @property
    def strip(self) -> int:
        """Elements between rows of the windows of one register tile's pixels."""
        return self.odd_lines(self.columns + self.lanes)

    def odd_lines(self, count: int) -> int:
        """At least so many elements, an odd number of cache lines."""
        line = 64 // self.size
        return (-(-count // line) | 1) * line

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.element}>"


# outputs x vectors of pixels
SHAPES = {128: ((8, 3), (6, 4), (4, 6), (4, 4)), 256: ((4, 3), (6, 2), (3, 4)), 512: ((8, 3), (12, 2), (4, 6))}
BLOCK_BYTES = {128: 768, 256: 1024, 512: 1024}   # of pixels packed at once
DEPTH = 256


def tile_shapes(bits: int | None = None) -> range:
    """Numbers of the register tiles there are for vectors of so many bits (this processor's),
    the most efficient first."""
    return range(len(SHAPES[bits or vector_bits()]))


@functools.cache
def tile_of(code: str, shape: int = 0, bits: int | None = None) -> Tile:
    """A tile for a dtype and vectors of so many bits (this processor's):
    accumulators fill most of the vector registers."""
    bits = bits or vector_bits()
    element, size = {"f32": ("float", 4), "f64": ("double", 8)}[code]
    lanes = bits // 8 // size
    rows, vectors = SHAPES[bits][shape]
    dots = (3, 4) if bits == 256 else (6, 4)
    columns = vectors * lanes
    block = BLOCK_BYTES[bits] // size // columns * columns
    return Tile(element, size, lanes, rows, vectors, *dots, block, DEPTH, bits == 128, bits > 128)


class Interface(NamedTuple):
    """A library kernel: `make(tile)` writes its text for a tile; `codes` are the dtypes it takes. Where it `finishes`,
    `make(tile, finish)` is the same with pointwise ops behind it (finish.py), whose operands follow its own: numbers of
    "channels", or "elements" too."""

    name: str
    operands: tuple[str, ...]
    params: tuple[str, ...]
    items: str                  # what the parallel range counts
    make: Callable[..., str]
    codes: tuple[str, ...] = ("f32", "f64")
    refuses: str = ""           # what its caller must not ask for
    finishes: str = ""

    def tile(self, code: str, shape: int = 0, bits: int | None = None) -> Tile:
        if code not in self.codes:
            raise ValueError(f"{self.name}: expected a dtype among {', '.join(self.codes)}, got {code}.")
        return tile_of(code, shape, bits)


INTERFACES: dict[str, Interface] = {}


def declare(interface: Interface) -> Interface:
    """Enter a kernel into the list of all."""
    return INTERFACES.setdefault(interface.name, interface)


class Text(NamedTuple):
    """What the kernel cache asks of a nest: a name, parameters and a digest.
    The text is written when it is compiled."""

    interface: Interface
    tile: Tile
    finish: Any = None

    @property
    def name(self) -> str:
        return self.interface.name

    @property
    def params(self) -> tuple[str, ...]:
        return self.interface.params

    def digest(self) -> bytes:
        """The name, the tile and what is behind it; the cache's key holds the generator's sources besides."""
        behind = () if self.finish is None else (self.finish.key,)
        return digest(repr((self.name, self.params, tuple(self.tile), *behind)).encode())


def text_of(interface: Interface, code: str, target: Target, shape: int = 0, finish: Any = None) -> str:
    """The LLVM module of a kernel for a target."""
    return module_of(interface, interface.tile(code, shape, target.vector_bits), target, finish)


def module_of(interface: Interface, tile: Tile, target: Target, finish: Any = None) -> str:
    text = interface.make(tile) if finish is None else interface.make(tile, finish)
    return f'target triple = "{target.triple}"\n{text}'


def assembly_of(interface: Interface, code: str, target: Target, shape: int = 0) -> str:
    """Assembly text of a kernel for a target."""
    from ..llvm.cpu import compile_ir

    return compile_ir(text_of(interface, code, target, shape), target, "asm", by_hand=True)


def _host_object(kernel: Text) -> bytes:
    from ..llvm.cpu import compile_ir, host_target

    text, words = module_of(kernel.interface, kernel.tile, host_target(), kernel.finish), shown_words()
    if "llvm" in words:
        show("llvm", kernel.name, text)
    if "asm" in words:
        show("asm", kernel.name, compile_ir(text, host_target(), "asm", by_hand=True))
    with waiting_for(f"compiling the kernel {kernel.name}"):
        return compile_ir(text, host_target(), "object", by_hand=True)


_loaded: dict[tuple[str, str, int, str | None], Kernel] = {}


def kernel_of(interface: Interface, code: str, shape: int = 0, finish: Any = None) -> Kernel:
    """The kernel for one of this processor's tiles, loaded."""
    key = (interface.name, code, shape, None if finish is None else finish.key)
    found = _loaded.get(key)
    if found is None:
        fresh = bool(shown_words() & {"llvm", "asm"})
        found = _loaded[key] = cache.kernel(Text(interface, interface.tile(code, shape), finish), _host_object, fresh)
    return found


def load_params(w: Writer, names: tuple[str, ...], wanted: tuple[str, ...] | None = None) -> None:
    """Read parameters into `w[name]`: all of them, or those wanted."""
    for k, name in enumerate(names):
        if wanted is None or name in wanted:
            w[name] = w.load("i64", w.at(w["params"], k, "i64"), 8)


def load_pointers(w: Writer, *names: str) -> None:
    """Read the operands' addresses into `w[name]`."""
    for k, name in enumerate(names):
        w[name] = w.load("ptr", w.at(w["ptrs"], k, "ptr"), 8)


def number(value: int) -> Reg:
    """An index constant."""
    return Reg(str(value), "i64")
