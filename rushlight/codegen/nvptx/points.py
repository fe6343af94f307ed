"""Pointwise nests as GPU kernels, one variant for each class of geometry.

Enters: a pointwise nest and a `PointClass`: how many dims, how each operand lies along the first of them, whether
elements go in vectors of 16 bytes, and whether indices fit in 32 bits. Leaves: LLVM IR text of a kernel for NVPTX:

    kernel(operands..., geometry)

An operand is an address, or the 16 bytes of a constant, by value. The geometry is an array of i64, by value: the number
of elements; for each dim but the last its size, and what divides by it (three words of 32 bits: see `divided`); then
the strides in bytes, by operand. Where elements go in vectors, sizes and strides of the first dim count vectors.

A thread takes `times` vectors (or elements), a block apart, so that their loads are all under way at once; the last
block takes what is left of them one by one, and single elements behind the last whole vector.
Any grid that has a thread for each of them is right.
"""

from __future__ import annotations

from ...loops.nest import For, Nest, Store
from ...loops.record import Record
from ..llvm.lower import Lowering, expand_calls
from ..llvm.widths import walk_values
from ..text import primitives as p
from ..text.registers import Reg
from ..text.targets import Target

CONSTANT, REPEATED, NEIGHBOURS, STRIDED = 0, 1, 2, 3
BYTES = 16           # of one access
LONG = 512           # operations in a thread's text past which it takes fewer vectors


class PointClass(Record):
    """What the code of a variant depends on; `kinds` are those of the operands along the first dim."""

    ndim: int
    kinds: tuple[int, ...]
    vectors: bool
    wide: bool           # indices have 64 bits


def is_plain(nest: Nest) -> bool:
    """Whether the nest only writes the element it is at."""
    inner = nest.loop.body[0]
    return all(isinstance(s, Store) and s.index is None and s.combine == "set" for s in inner.body)


def vector_length(nest: Nest) -> int:
    """Elements of a vector: as many as the widest operand has in one access."""
    return BYTES // max(p.SIZE[o.code] for o in nest.operands) if is_plain(nest) else 1


def lower_points(nest: Nest, which: PointClass, target: Target) -> tuple[str, int]:
    """The kernel's text, and how many vectors a thread takes."""
    result = PointLowering(expand_calls(nest, target), which, target)
    return result.text(), result.times


class PointLowering(Lowering):
    """The lowering of one variant."""

    def __init__(self, nest: Nest, which: PointClass, target: Target) -> None:
        self.which = which
        self.inner: For = nest.loop.body[0]
        self.plain = is_plain(nest)
        self.length = vector_length(nest) if which.vectors else 1
        self.index_type = "i64" if which.wide else "i32"
        self.inputs = len(nest.operands) - len([s for s in self.inner.body if isinstance(s, Store)])
        self.times = self.how_often(nest)
        self.here: dict[int, Reg] = {}         # what `arg` reads now
        self.results: dict[int, Reg] = {}      # what stores of the present element wrote
        self.fixed: dict[int, Reg] = {}        # operands that are one element throughout
        self.flow: list[str] = []              # text behind what is the same for all elements
        super().__init__(nest, target)

    def how_often(self, nest: Nest) -> int:
        if not self.plain:
            return 1
        work = len(walk_values([s.value for s in self.inner.body])) * self.length
        read = len([k for k in self.which.kinds[: self.inputs] if k in (NEIGHBOURS, STRIDED)])
        most = 4 if read <= 1 else 2
        while most > 1 and most * work > LONG:
            most //= 2
        return most

    # Arguments

    def signature(self) -> str:
        operands = [
            f"ptr byval([{BYTES} x i8]) align {BYTES} %p{k}" if kind == CONSTANT else f"ptr %p{k}"
            for k, kind in enumerate(self.which.kinds)
        ]
        words = 1 + 2 * (self.which.ndim - 1) + len(operands) * self.which.ndim
        return ", ".join([*operands, f"ptr byval([{words} x i64]) align 8 %geometry"])

    def entry_values(self) -> None:
        """Nothing is in an array here."""

    def word(self, number: int, ty: str = "i64", byte: int = 0) -> str:
        """A word of the geometry."""
        lines = self.scopes[0].lines
        at = self.out.emit(lines, f"getelementptr i8, ptr %geometry, i64 {number * 8 + byte}")
        return self.out.emit(lines, f"load {ty}, ptr {at}, align {8 if ty == 'i64' else 4}")

    def special(self, register: str) -> str:
        name = f"@llvm.nvvm.read.ptx.sreg.{register}"
        self.out.declared[name] = f"declare i32 {name}()"
        value = self.out.emit(self.scopes[0].lines, f"call i32 {name}()")
        return self.out.emit(self.scopes[0].lines, f"zext i32 {value} to i64") if self.which.wide else value

    def entry_numbers(self) -> None:
        """Sizes and strides, and what is the same for all elements."""
        ty, ndim = self.index_type, self.which.ndim
        self.sizes = [
            (
                self.word(1 + 2 * d, ty),
                *(() if self.which.wide else (self.word(1 + 2 * d, ty, 4), self.word(2 + 2 * d, ty))),
            )
            for d in range(ndim - 1)
        ]
        self.strides = {}
        for k, kind in enumerate(self.which.kinds):
            for d in range(ndim):
                if kind != CONSTANT and not (d == 0 and kind in (REPEATED, NEIGHBOURS)):
                    self.strides[k, d] = self.word(1 + 2 * (ndim - 1) + k * ndim + d, ty)
            if kind == CONSTANT or (kind == REPEATED and ndim == 1 and k < self.inputs):
                self.fixed[k] = self.load_parts(self.nest.operands[k].code, [f"%p{k}"], 0, 0)

    # The kernel

    def block(self, body: tuple, outer: bool = False) -> None:
        if not outer:
            super().block(body)
            return
        out, ty, lines = self.out, self.index_type, self.flow
        self.entry_numbers()
        thread, threads, block = self.special("tid.x"), self.special("ntid.x"), self.special("ctaid.x")
        total = self.word(0, ty)
        entry = self.scopes[0].lines
        whole = out.emit(entry, f"lshr {ty} {total}, {self.length.bit_length() - 1}") if self.length > 1 else total
        share = out.emit(entry, f"mul {ty} {threads}, {self.times}")
        first = out.emit(lines, f"add {ty} {out.emit(lines, f'mul {ty} {block}, {share}')}, {thread}")
        several, rest, after = out.label(), out.label(), out.label()
        if self.times > 1:
            last = out.emit(lines, f"add {ty} {first}, {out.emit(lines, f'mul {ty} {threads}, {self.times - 1}')}")
            fits = out.emit(lines, f"icmp slt {ty} {last}, {whole}")
            lines += [f"  br i1 {fits}, label %{several}, label %{rest}", f"{several}:"]
            places = [first]
            scope = self.push(several, is_guard=True)
            for _ in range(self.times - 1):
                places.append(out.emit(scope.lines, f"add {ty} {places[-1]}, {threads}"))
            self.elements(places, self.length)
            self.pop()
            lines += [*scope.lines, f"  br label %{after}"]
        else:
            lines.append(f"  br label %{rest}")
        self.one_by_one(rest, after, first, threads, self.end_of_block(block, share, whole))
        if self.length > 1 and self.which.ndim == 1:
            self.behind_whole_vectors(block, thread, total, whole)
        self.scopes[0].lines += self.flow

    def end_of_block(self, block: str, share: str, whole: str) -> str:
        """Where this block's vectors end; emitted with what is the same for all elements."""
        out, ty, lines = self.out, self.index_type, self.scopes[0].lines
        end = out.emit(lines, f"mul {ty} {out.emit(lines, f'add {ty} {block}, 1')}, {share}")
        return out.emit(
            lines, f"select i1 {out.emit(lines, f'icmp slt {ty} {end}, {whole}')}, {ty} {end}, {ty} {whole}"
        )

    def one_by_one(self, rest: str, after: str, first: str, threads: str, whole: str) -> None:
        """A loop over what is left of a block's vectors, up to `whole`."""
        out, ty, lines = self.out, self.index_type, self.flow
        top, inside, at = out.label(), out.label(), out.fresh()
        scope = self.push(inside, is_guard=True)
        self.elements([at], self.length)
        self.pop()
        following = out.emit(scope.lines, f"add {ty} {at}, {threads}")
        lines += [
            f"{rest}:",
            f"  br label %{top}",
            f"{top}:",
            f"  {at} = phi {ty} [ {first}, %{rest} ], [ {following}, %{scope.label} ]",
        ]
        more = out.emit(lines, f"icmp slt {ty} {at}, {whole}")
        lines += [
            f"  br i1 {more}, label %{inside}, label %{after}",
            f"{inside}:",
            *scope.lines,
            f"  br label %{top}",
            f"{after}:",
        ]

    def behind_whole_vectors(self, block: str, thread: str, total: str, whole: str) -> None:
        """Single elements, each by a thread of the last block."""
        out, ty, lines = self.out, self.index_type, self.flow
        blocks = self.special("nctaid.x")
        is_last = out.emit(lines, f"icmp eq {ty} {out.emit(lines, f'add {ty} {block}, 1')}, {blocks}")
        at = out.emit(
            lines, f"add {ty} {out.emit(lines, f'shl {ty} {whole}, {self.length.bit_length() - 1}')}, {thread}"
        )
        wanted = out.emit(lines, f"and i1 {is_last}, {out.emit(lines, f'icmp slt {ty} {at}, {total}')}")
        inside, end = out.label(), out.label()
        scope = self.push(inside, is_guard=True)
        self.elements([at], 1)
        self.pop()
        lines += [
            f"  br i1 {wanted}, label %{inside}, label %{end}",
            f"{inside}:",
            *scope.lines,
            f"  br label %{end}",
            f"{end}:",
        ]

    # Elements

    def elements(self, places: list[str], length: int) -> None:
        """Vectors of `length` at each of `places`: all are read, then computed, then written."""
        offsets = [self.offsets(at, length) for at in places]
        if not self.plain:
            self.run_body(offsets[0])
            return
        read = [{k: self.read(k, at[k], length) for k in range(self.inputs) if k not in self.fixed} for at in offsets]
        answers: list[list[dict[int, Reg]]] = []
        for values in read:
            answers.append([])
            for e in range(length):
                self.forget({("operand", k) for k in values})
                self.here = {k: regs[e if len(regs) > 1 else 0] for k, regs in values.items()}
                answers[-1].append({s.operand: self.evaluate(s.value) for s in self.inner.body})
        self.forget({("operand", k) for values in read for k in values})
        for at, results in zip(offsets, answers, strict=True):
            for s in self.inner.body:
                self.write(s.operand, at[s.operand], [one[s.operand] for one in results])

    def run_body(self, offsets: dict[int, str]) -> None:
        """Statements of any form, on one element."""
        self.here = {
            k: self.read(k, at, 1)[0]
            for k, at in offsets.items()
            if self.which.kinds[k] != CONSTANT and k < self.inputs
        }
        self.forget({("operand", k) for k in self.here})
        super().block(self.inner.body)

    def offsets(self, at: str, length: int) -> dict[int, str]:
        """Bytes from each operand's address to the vector (or element) number `at`."""
        out, ty, lines = self.out, self.index_type, self.scopes[-1].lines
        position, rest = [], at
        for size in self.sizes:
            quotient = self.divided(rest, size)
            position.append(out.emit(lines, f"sub {ty} {rest}, {out.emit(lines, f'mul {ty} {quotient}, {size[0]}')}"))
            rest = quotient
        position.append(rest)
        result = {}
        for k, kind in enumerate(self.which.kinds):
            if kind == CONSTANT:
                continue
            terms = []
            for d, i in enumerate(position):
                if d == 0 and kind == NEIGHBOURS:
                    terms.append(out.emit(lines, f"mul {ty} {i}, {p.SIZE[self.nest.operands[k].code] * length}"))
                elif d or kind == STRIDED:
                    terms.append(out.emit(lines, f"mul {ty} {i}, {self.strides[k, d]}"))
            total = terms[0] if terms else "0"
            for term in terms[1:]:
                total = out.emit(lines, f"add {ty} {total}, {term}")
            result[k] = total if ty == "i64" or total == "0" else out.emit(lines, f"sext i32 {total} to i64")
        return result

    def divided(self, n: str, size: tuple[str, ...]) -> str:
        """n / size: by a multiplication where indices have 32 bits, (high half of n * magic + n) >> shift."""
        out, lines = self.out, self.scopes[-1].lines
        if self.which.wide:
            return out.emit(lines, f"udiv i64 {n}, {size[0]}")
        wide, magic = (out.emit(lines, f"zext i32 {word} to i64") for word in (n, size[1]))
        high = out.emit(lines, f"lshr i64 {out.emit(lines, f'mul i64 {wide}, {magic}')}, 32")
        summed = out.emit(lines, f"add i32 {out.emit(lines, f'trunc i64 {high} to i32')}, {n}")
        return out.emit(lines, f"lshr i32 {summed}, {size[2]}")

    def read_operand(self, operand: int, index: object) -> Reg:
        if index is not None:
            return super().read_operand(operand, index)
        return self.fixed.get(operand) or self.here[operand]

    def read(self, k: int, offset: str, length: int) -> list[Reg]:
        """The elements of a vector; of a repeated one, one."""
        scope, code, out = self.scopes[-1], self.nest.operands[k].code, self.out
        pointer = out.emit(scope.lines, f"getelementptr i8, ptr %p{k}, i64 {offset}")
        if length == 1 or self.which.kinds[k] == REPEATED:
            return [self.load_parts(code, [pointer], 0, scope.depth)]
        part, halves = p.PARTS.get(code, code), 2 if code in p.PARTS else 1
        memory = f"<{length * halves} x {p.MEMORY[part]}>"
        whole = out.emit(scope.lines, f"load {memory}, ptr {pointer}, align {min(BYTES, p.SIZE[code] * length)}")
        items = [out.emit(scope.lines, f"extractelement {memory} {whole}, i32 {e}") for e in range(length * halves)]
        if code == "b1":
            items = [out.emit(scope.lines, f"icmp ne i8 {item}, 0") for item in items]
        if halves == 2:
            return [Reg(code, 0, [items[2 * e]], scope.depth, imag=[items[2 * e + 1]]) for e in range(length)]
        return [Reg(code, 0, [item], scope.depth) for item in items]

    def write(self, k: int, offset: str, values: list[Reg]) -> None:
        scope, code, out = self.scopes[-1], self.nest.operands[k].code, self.out
        pointer = out.emit(scope.lines, f"getelementptr i8, ptr %p{k}, i64 {offset}")
        if len(values) == 1:
            self.store_parts(code, values[0], [pointer])
            return
        part, halves = p.PARTS.get(code, code), 2 if code in p.PARTS else 1
        memory, whole = f"<{len(values) * halves} x {p.MEMORY[part]}>", "poison"
        for e, reg in enumerate(values):
            for h, item in enumerate((reg.parts[0], *([reg.imag[0]] if halves == 2 else []))):
                if code == "b1":
                    item = out.emit(scope.lines, f"zext i1 {item} to i8")
                whole = out.emit(
                    scope.lines, f"insertelement {memory} {whole}, {p.MEMORY[part]} {item}, i32 {e * halves + h}"
                )
        scope.lines.append(f"  store {memory} {whole}, ptr {pointer}, align {min(BYTES, p.SIZE[code] * len(values))}")
