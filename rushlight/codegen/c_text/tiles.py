"""Tiles of matrix products as functions of C-like text.

Enters: the `Pack` and `Multiply` statements of nests for processors. Leaves: functions, and calls of them. Sums of a
whole tile are kept in an array that the compiler holds in registers; tiles at the edges go one by one.
"""

from __future__ import annotations

from ...loops.expr import is_const
from ...loops.nest import Multiply, Nest, Pack
from ..text.targets import vector_bits
from ..tiles.shapes import packed_unit
from .values import Values


class Tiles(Values):
    """The part of a printer that writes them."""

    nest: Nest

    def unit(self, code: str) -> int:
        """Elements in multiples of which packed lines lie: as the scheduler counted on, for this processor."""
        return packed_unit(vector_bits(), self.vector_of(code))

    def vector_of(self, code: str) -> int:
        return vector_bits() // (32 if code == "f32" else 64)

    def pitch(self, code: str, width: int) -> int:
        unit = self.unit(code)
        return -(-width // unit) * unit

    def pointer(self, operand: int) -> str:
        """The type of an operand's address."""
        o = self.nest.operands[operand]
        return f"{self.table.own_memory if o.stack else self.table.memory}{o.code} *"

    def define(self, name: str, arguments: str, body: str) -> None:
        self.functions.setdefault(name, f"{self.table.function} void {name}({arguments}) {{\n{body}\n}}")

    def place(self, s: int) -> str:
        return f"p{s}"

    def pack(self, s: Pack) -> None:
        code = self.nest.operands[s.source].code
        kinds = "".join("s" if self.nest.operands[k].stack else "m" for k in (s.source, s.target))
        name = f"pack_{code}_{s.width}_{kinds}{'_pairs' if s.pairs else '_runs' if is_const(s.step, 1) else ''}"
        pitch = self.pitch(code, s.width)
        if s.pairs:
            read = ("const i64 other = (at < lines - 2 + r % 2 ? at : lines - 2 + r % 2) ^ (k & 1);\n"
                    f"        const {code} value = source[other + k / 2 * step];\n"
                    f"        target[strip * apart + k * {pitch} + r] = (k & 1) && !(r & 1) ? -value : value;")
        else:
            read = f"target[strip * apart + k * {pitch} + r] = source[(at < lines ? at : lines - 1) * line + k * step];"
        body = (f"  for (i64 strip = 0; strip < count; strip++)\n    for (i64 k = 0; k < length; k++)\n"
                f"      for (int r = 0; r < {s.width}; r++) {{\n        const i64 at = strip * {s.width} + r;\n"
                f"        {read}\n      }}")
        self.define(name, f"{self.pointer(s.source)}source, i64 line, i64 step, {self.pointer(s.target)}target, "
                          "i64 apart, i64 lines, i64 length, i64 count", body)
        numbers = [self.value(v) for v in (s.start, s.line, s.step, s.at, s.apart, s.lines, s.length, s.count)]
        start, line, step, at, *rest = numbers
        self.emit(f"{name}(p{s.source} + {start}, {line}, {step}, p{s.target} + {at}, {', '.join(rest)});")

    def multiply(self, s: Multiply) -> None:
        code = self.nest.operands[s.a].code
        width = s.vectors * self.vector_of(code)
        kinds = "".join("s" if self.nest.operands[k].stack else "m" for k in (s.a, s.b, s.c))
        name = f"multiply_{code}_{s.height}_{width}_{kinds}"
        self.define(name, f"{self.pointer(s.a)}a, i64 a_row, i64 a_k, {self.pointer(s.b)}b, i64 b_k, "
                          f"{self.pointer(s.c)}c, i64 c_row, i64 rows, i64 columns, i64 depth, int add",
                    self.tile_body(code, s.height, width, kinds))
        if s.keep is not None:
            self.keep_tile(s, code, width)
        pitch = str(self.pitch(code, s.height)) if s.pitch is None else self.value(s.pitch)
        row, step = ("1", pitch) if s.line is None else (self.value(s.line), "1")
        b_at, b_step, c_at, c_step = (self.value(v) for v in (s.b_at, s.b_step, s.c_at, s.c_step))
        sizes = ", ".join([self.value(v) for v in (s.rows, s.columns, s.depth, s.add)])
        self.emit(f"{name}(p{s.a} + {self.value(s.a_at)}, {row}, {step}, p{s.b} + {b_at}, {b_step}, "
                  f"p{s.c} + {c_at}, {c_step}, {sizes});")

    def tile_body(self, code: str, height: int, width: int, kinds: str) -> str:
        """Whole tiles with all sums side by side; others row by row."""
        fma = self.table.builtins["fma"].replace("%s", self.table.suffix if code == "f32" else "")
        sums = f"""    {code} sums[{height}][{width}];
    for (int r = 0; r < {height}; r++)
      for (int j = 0; j < {width}; j++) sums[r][j] = add ? c[r * c_row + j] : 0;
    for (i64 k = 0; k < depth; k++)
      for (int r = 0; r < {height}; r++) {{
        const {code} left = a[r * a_row + k * a_k];
        for (int j = 0; j < {width}; j++) sums[r][j] = {fma}(left, b[k * b_k + j], sums[r][j]);
      }}
    for (int r = 0; r < {height}; r++)
      for (int j = 0; j < {width}; j++) c[r * c_row + j] = sums[r][j];"""
        whole = self.whole_tile(code, height, width, kinds) if self.table.vectors else sums
        return f"""  if (rows == {height} && columns == {width}) {{
{whole}
    return;
  }}
  for (i64 r = 0; r < rows; r++) {{
    {code} sums[{width}];
    for (int j = 0; j < {width}; j++) sums[j] = add && j < columns ? c[r * c_row + j] : 0;
    for (i64 k = 0; k < depth; k++)
      for (i64 j = 0; j < columns; j++)
        sums[j] = {fma}(a[r * a_row + k * a_k], b[k * b_k + j], sums[j]);
    for (i64 j = 0; j < columns; j++) c[r * c_row + j] = sums[j];
  }}"""

    def whole_tile(self, code: str, height: int, width: int, kinds: str) -> str:
        """The sums of a tile as vectors, each a variable."""
        lanes = self.vector_of(code)
        vector = f"{self.table.types[code]}{lanes}"
        right, result = (self.table.own_memory if kind == "s" else self.table.memory for kind in kinds[1:])
        sums = [(r, v, f"*({result}anywhere *)(c + {r} * c_row + {v * lanes})")
                for r in range(height) for v in range(width // lanes)]
        size = 4 if code == "f32" else 8
        lines = [self.table.contract, f"typedef {vector} anywhere __attribute__((aligned({size})));"]
        lines += [f"{vector} s{r}_{v} = add ? {place} : ({vector})(0);" for r, v, place in sums]
        lines.append("for (i64 k = 0; k < depth; k++) {")
        lines += [f"  const {vector} b{v} = *({right}anywhere *)(b + k * b_k + {v * lanes});"
                  for v in range(width // lanes)]
        for r in range(height):
            lines.append(f"  const {vector} a{r} = ({vector})(a[{r} * a_row + k * a_k]);")
            lines += [f"  s{r}_{v} = a{r} * b{v} + s{r}_{v};" for v in range(width // lanes)]
        lines.append("}")
        lines += [f"{place} = s{r}_{v};" for r, v, place in sums]
        return "\n".join(["    " + line for line in lines])

    def keep_tile(self, s: Multiply, code: str, width: int) -> None:
        """What a tile reads, packed as others will read it."""
        assert s.keep is not None and s.pitch is not None
        left, left_at, right, right_at = s.keep
        packed, k, j = self.pitch(code, s.height), self.fresh("k"), self.fresh("j")
        sources = ((left, self.value(left_at), packed, s.a, self.value(s.a_at), self.value(s.pitch), s.height),
                   (right, self.value(right_at), width, s.b, self.value(s.b_at), self.value(s.b_step), width))
        self.emit(f"for (i64 {k} = 0; {k} < {self.value(s.depth)}; {k}++) {{")
        for to, at, apart, source, start, step, many in sources:
            self.emit(f"  for (i64 {j} = 0; {j} < {many}; {j}++) p{to}[{at} + {k} * {apart} + {j}] = "
                      f"p{source}[{start} + {k} * {step} + {j}];")
        self.emit("}")
