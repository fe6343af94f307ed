"""Nests to LLVM IR text: scopes, scalar evaluation, and every statement.

Enters: a verified `Nest` and a `Target`. Leaves: the text of an LLVM module with one function, in SSA form, with
loop-invariant values already outside their loops and vector loops already in vectors, so that no LLVM loop pass is
needed. Refuses: scheduling; the nest says which loops are vector loops, the target says how wide vectors are.

How text is placed. Every region (function, loop guard, loop body, branch) is a Scope with its own list of lines and
a memo of evaluated Values. A Value is emitted into the outermost scope where all it needs exists, because an outer
scope's text always ends just before the inner region it encloses. Loads move no further out than the innermost
region that may not run at all, and not past stores to the same operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...loops.expr import BUILD, Value, arg, const, is_const, load, rewrite, walk
from ...loops.nest import (
    THERE,
    Assign,
    Check,
    Fetch,
    For,
    If,
    Local,
    Multiply,
    Nest,
    Pack,
    Reduce,
    Statement,
    Store,
    map_values,
    values_of,
)
from ..text import primitives as p
from ..text.extremes import native_extreme
from ..text.quotients import by_floats, float_for
from ..text.registers import NotVector, Reg, Scope, VectorLoop
from ..text.targets import Target
from ..tiles.functions import TileFunction, keep_function, multiply_function, pack_function, rows_function
from ..tiles.shapes import TileShape
from .gpu_math import rule_for
from .interchange import in_memory_order, in_tiles
from .moving import Moving
from .widths import choose_width, known_factor, only_moves, wants_single_vectors

ZERO = const(0, "i64")


class Lowering(Moving):
    """The state of lowering one nest; `text()` is the result."""

    def __init__(self, nest: Nest, target: Target, shares: bool = False) -> None:
        self.nest, self.target = nest, target
        self.shares = shares  # functions of tiles are declared only: tile_objects.py has them
        self.out = p.Output(not target.triple.startswith("x86"), target.is_gpu, target.has_half, target.truncates)
        entry = Scope(0, "entry")
        self.scopes = [entry]
        self.env: dict[str, Reg] = {}
        self.definitions: dict[str, Value] = {}
        self.uses: dict[Value, frozenset] = {}
        self.heights: dict[Value, int] = {}
        self.written = stored_operands((nest.loop,))
        self.assigned = assigned_names((nest.loop,))
        self.floor = 0  # nothing is emitted further out while a rare branch is being filled
        self.allocas: list[str] = []
        self.constants: dict[tuple[str, int, str], int] = {}  # offset of each in @constants
        self.functions: dict[str, str] = {}  # texts of functions that the kernel calls
        self.short_loops: list[For | Reduce] = []  # of so few turns that LLVM shall leave them as they are
        self.notes = ['!0 = !{!"llvm.loop.unroll.disable"}']
        self.entry_values()
        self.block((nest.loop,), outer=True)

    def entry_values(self) -> None:
        for k, operand in enumerate(self.nest.operands):
            if operand.stack:
                element = p.MEMORY[p.PARTS.get(operand.code, operand.code)]
                count = operand.stack * (2 if operand.code in p.PARTS else 1)
                self.allocas.append(f"  %p{k} = alloca [{count} x {element}], align 64")
        self.read_arguments()
        self.env["begin"] = Reg("i64", 0, ["%begin"], 0)
        self.env["end"] = Reg("i64", 0, ["%end"], 0)

    def read_arguments(self) -> None:
        """Operands and parameters, from the arrays that the kernel ABI hands over."""
        lines = self.scopes[0].lines
        for k, operand in enumerate(self.nest.operands):
            if not operand.stack:
                lines.append(f"  %at{k} = getelementptr ptr, ptr %ptrs, i64 {k}")
                lines.append(f"  %p{k} = load ptr, ptr %at{k}, align {self.target.pointer_size}")
        for k, name in enumerate(self.nest.params):
            at = self.out.emit(lines, f"getelementptr i64, ptr %params, i64 {k}")
            self.env[name] = Reg("i64", 0, [self.out.emit(lines, f"load i64, ptr {at}, align 8")], 0)

    def signature(self) -> str:
        """The kernel's arguments."""
        return "ptr %ptrs, ptr %params, i64 %begin, i64 %end"

    def text(self) -> str:
        """The module: constant tables, declarations, the function."""
        body = self.scopes[0].lines
        tables = [f"{name} = private unnamed_addr constant {text}" for name, text in self.table_texts()]
        head = f"define {self.target.linkage}void @{self.nest.name}({self.signature()}) #0 {{"
        lines = [f'target triple = "{self.target.triple}"', *tables, *self.out.declared.values(), head, "entry:"]
        # Registers that wait in memory lie across two cache lines unless the stack begins with one.
        aligned = ' "stackrealign"' if self.target.vector_bits > 128 else ""
        ends = ["  ret void", "}", *self.functions.values(), f"attributes #0 = {{ nounwind{aligned} }}"]
        notes = self.notes if len(self.notes) > 1 else []
        text = "\n".join([*lines, *self.allocas, *body, *ends, *notes, ""])
        return text if self.target.has_half else p.as_bits(text)

    def table_texts(self) -> list[tuple[str, str]]:
        texts = []
        for (code, values), name in self.out.tables.items():
            items = ", ".join(f"{p.MEMORY[code]} {p.literal(v, code)}" for v in values)
            texts.append((name, f"[{len(values)} x {p.MEMORY[code]}] [{items}]"))
        if self.constants:
            types = ", ".join(p.type_of(code, lanes) for code, lanes, _ in self.constants)
            items = ", ".join(
                f"{p.type_of(code, lanes)} {p.splat_literal(text, code, lanes)}" for code, lanes, text in self.constants
            )
            texts.append(("@constants", f"<{{ {types} }}> <{{ {items} }}>, align 16"))
        return texts

    # Evaluation

    def find(self, value: Value) -> Reg | None:
        if value.op == "const":
            return Reg(value.dtype, 0, [p.literal(value.attr, value.dtype)], 0, is_literal=True)
        if value.op == "var":
            return self.read_name(value.attr)
        for scope in reversed(self.scopes):
            found = scope.memo.get(value)
            if found is not None:
                return found
        return None

    def read_name(self, name: str) -> Reg:
        reg = self.env.get(name)
        assert reg is not None, f"codegen: {self.nest.name} reads {name} before it is defined"
        if reg.parts:
            return reg
        return self.lane_numbers(name, reg)

    def evaluate(self, root: Value) -> Reg:
        """The register of a Value, emitting what is missing; iterative, so depth of expression is no limit."""
        stack = [root]
        while stack:
            value = stack[-1]
            if self.find(value) is not None:
                stack.pop()
                continue
            missing = [a for a in self.needed(value) if self.find(a) is None]
            if missing:
                # The longest chain goes first: LLVM's scheduler is off, so this order is the machine's.
                missing.sort(key=self.height)
                stack.extend(missing)
                continue
            self.compute(value)
            stack.pop()
        return self.find(root)

    def needed(self, value: Value) -> tuple[Value, ...]:
        """Arguments to evaluate first: addressing looks at a load's index itself,
        a rare choice waits for its branch."""
        if value.op == "load":
            return ()
        return (value.args[0], value.args[2]) if value.attr == "rare" and value.op == "select" else value.args

    def height(self, value: Value) -> int:
        """Length of the longest chain of operations below a Value."""
        if value not in self.heights:
            for item in walk((value,), self.heights):
                self.heights[item] = 1 + max([self.heights[a] for a in item.args], default=0)
        return self.heights[value]

    def compute(self, value: Value) -> None:
        op = value.op
        if op == "arg" or op == "load":
            reg = self.read_operand(value.attr, value.args[0] if value.args else None)
        elif op == "select" and value.attr == "rare":
            reg = self.rare_select(value)
        elif op in ("real", "imag", "complex"):
            reg = self.pair_part(op, value)
        elif op == "table":
            reg = self.read_table(value)
        elif op in ("idiv", "irem") and any(self.find(a).lanes for a in value.args):
            reg = self.divided(value)
        else:
            reg = self.elementwise(value)
        self.scopes[reg.depth].memo[value] = reg

    def elementwise(self, value: Value) -> Reg:
        args = [self.find(a) for a in value.args]
        depth = max(self.floor, *[a.depth for a in args])
        lanes, count = max(a.lanes for a in args), max(len(a.parts) for a in args)
        texts = [self.spread(a, lanes, count) for a in args]
        if value.op == "fma" and lanes and args[2].is_literal and self.reloads(value.dtype, lanes):
            texts[2] = self.reload(args[2], lanes, count, depth)
        source = args[-1].code if value.op == "select" else args[0].code
        lines = self.scopes[depth].lines
        if value.attr == "near" and lanes == 4 and count > 1 and self.target.has_reciprocal_steps:
            return Reg(value.dtype, lanes, self.near_quotients(lines, *texts), depth)
        op = self.instruction(value)
        parts = [
            p.primitive(self.out, lines, op, value.dtype, source, lanes, [text[u] for text in texts])
            for u in range(count)
        ]
        return Reg(value.dtype, lanes, parts, depth)

    def divided(self, value: Value) -> Reg:
        """Integers divided on lanes."""
        wide = float_for(value, self.target)
        if wide is not None:
            return self.evaluate(by_floats(value, wide))
        if self.nest.point and value.args[1].op != "const":
            raise NotVector     # nothing else in such a loop is worth its lanes
        return self.elementwise(value)

    def instruction(self, value: Value) -> str:
        """The primitive to emit: `c < x ? c : x` with a constant is NaN when x is, as one instruction may say."""
        if value.op in ("min", "max") and value.dtype in ("f32", "f64") and self.target.has_maximum:
            bound = value.args[0]
            if bound.op == "const" and bound.attr == bound.attr:
                return value.op + "imum"
        return value.op

    def near_quotients(self, lines: list[str], tops: list[str], bottoms: list[str]) -> list[str]:
        """Quotients of four lanes each: every second one by the divider,
        the others by two Newton steps from an estimate.

        The divider takes one vector in seven cycles and is often still busy with a square root; the multipliers wait
        meanwhile. Sharing the work made AdamW's kernel a sixth faster (Neoverse N1).
        """
        ty, out = "<4 x float>", self.out

        def arm(name: str, *args: str) -> str:
            return out.intrinsic(lines, f"aarch64.neon.{name}", ty, list(args))

        results = [
            out.emit(lines, f"fdiv {ty} {a}, {b}") if u % 2 == 0 else ""
            for u, (a, b) in enumerate(zip(tops, bottoms, strict=True))
        ]
        odd = range(1, len(results), 2)
        guesses = {u: arm("frecpe", bottoms[u]) for u in odd}
        for _ in range(2):
            factors = {u: arm("frecps", bottoms[u], guesses[u]) for u in odd}
            guesses = {u: out.emit(lines, f"fmul {ty} {guesses[u]}, {factors[u]}") for u in odd}
        for u in odd:
            results[u] = out.emit(lines, f"fmul {ty} {tops[u]}, {guesses[u]}")
        return results

    def reloads(self, code: str, lanes: int) -> bool:
        return self.target.fma_overwrites_addend and lanes * p.SIZE[code] % 16 == 0

    def reload(self, constant: Reg, lanes: int, count: int, depth: int) -> list[str]:
        """The constant read from memory for each use.

        Where fma overwrites its addend, a constant kept in a register is copied before every use, on the same ports
        as the arithmetic; reading it again runs on the load ports. Volatile keeps LLVM from undoing this.
        """
        code, lines = constant.code, self.scopes[depth].lines
        key = (code, lanes, constant.parts[0])
        if key not in self.constants:
            self.constants[key] = sum(each[1] * p.SIZE[each[0]] for each in self.constants)
        at = self.out.emit(lines, f"getelementptr i8, ptr @constants, i64 {self.constants[key]}")
        return [
            self.out.emit(lines, f"load volatile {p.type_of(code, lanes)}, ptr {at}, align 16") for _ in range(count)
        ]

    def pair_part(self, op: str, value: Value) -> Reg:
        if op != "complex":
            pair = self.find(value.args[0])
            return Reg(value.dtype, pair.lanes, pair.parts if op == "real" else pair.imag, pair.depth)
        re, im = (self.find(a) for a in value.args)
        lanes, count = max(re.lanes, im.lanes), max(len(re.parts), len(im.parts))
        parts = self.spread(re, lanes, count), self.spread(im, lanes, count)
        return Reg(value.dtype, lanes, parts[0], max(re.depth, im.depth), imag=parts[1])

    def spread(self, reg: Reg, lanes: int, count: int) -> list[str]:
        """The register on `lanes` lanes and `count` parts: uniform values are repeated."""
        if reg.lanes == lanes and len(reg.parts) == count:
            return reg.parts
        if reg.lanes == lanes:
            return reg.parts * count
        if reg.is_literal:
            return [p.splat_literal(reg.parts[0], reg.code, lanes)] * count
        scope = self.scopes[reg.depth]
        key = ("splat", reg.parts[0], lanes)
        name = scope.memo.get(key)
        if name is None:
            ty, element = p.type_of(reg.code, lanes), p.REGISTER[reg.code]
            one = self.out.emit(scope.lines, f"insertelement {ty} poison, {element} {reg.parts[0]}, i32 0")
            name = self.out.emit(
                scope.lines, f"shufflevector {ty} {one}, {ty} poison, <{lanes} x i32> zeroinitializer"
            )
            scope.memo[key] = name
        return [name] * count

    def widen(self, reg: Reg, lanes: int, count: int) -> Reg:
        """`spread` as a Reg, complex parts included."""
        if reg.lanes == lanes and len(reg.parts) == count:
            return reg
        if reg.imag is None:
            return Reg(reg.code, lanes, self.spread(reg, lanes, count), reg.depth)
        part = p.PARTS[reg.code]
        both = [self.spread(Reg(part, 0, half, reg.depth), lanes, count) for half in (reg.parts, reg.imag)]
        return Reg(reg.code, lanes, both[0], reg.depth, imag=both[1])

    def read_table(self, value: Value) -> Reg:
        index = self.find(value.args[0])
        depth = max(self.floor, index.depth)
        lines = self.scopes[depth].lines
        name = self.out.tables.setdefault((value.dtype, value.attr), f"@table{len(self.out.tables)}")
        element = p.MEMORY[value.dtype]

        def entry(at: str) -> str:
            wide = self.out.emit(lines, f"zext {p.REGISTER[index.code]} {at} to i64") if p.SIZE[index.code] < 8 else at
            where = self.out.emit(lines, f"getelementptr {element}, ptr {name}, i64 {wide}")
            return p.load(self.out, lines, value.dtype, where, 0)

        parts = [self.by_lane(lines, value.dtype, index, part, entry) for part in index.parts]
        return Reg(value.dtype, index.lanes, parts, depth)

    def rare_select(self, value: Value) -> Reg:
        """Branch around the first choice unless some lane needs it."""
        condition, common = self.find(value.args[0]), self.find(value.args[2])
        lines, here = self.scopes[-1].lines, self.scopes[-1].depth
        lanes, count = max(condition.lanes, common.lanes), max(len(condition.parts), len(common.parts))
        any_lane = self.any_true(condition)
        inside, after = self.out.label(), self.out.label()
        before = self.scopes[-1].label
        scope = self.push(inside)
        floor, self.floor = self.floor, scope.depth
        scope.is_guard = True
        rare = self.evaluate(value.args[1])
        lanes, count = max(lanes, rare.lanes), max(count, len(rare.parts))
        flags, first, second = (self.spread(r, lanes, count) for r in (condition, rare, common))
        ty, flag_ty = p.type_of(value.dtype, lanes), p.type_of("b1", lanes)
        chosen = [
            self.out.emit(scope.lines, f"select {flag_ty} {flags[u]}, {ty} {first[u]}, {ty} {second[u]}")
            for u in range(count)
        ]
        self.pop()
        self.floor = floor
        lines += [f"  br i1 {any_lane}, label %{inside}, label %{after}"]
        lines += [f"{inside}:", *scope.lines, f"  br label %{after}", f"{after}:"]
        parts = [
            self.out.emit(lines, f"phi {ty} [ {second[u]}, %{before} ], [ {chosen[u]}, %{scope.label} ]")
            for u in range(count)
        ]
        self.scopes[-1].label = after
        return Reg(value.dtype, lanes, parts, here)

    def any_true(self, condition: Reg) -> str:
        lines = self.scopes[-1].lines
        if not condition.lanes:
            return condition.parts[0]
        ty = p.type_of("b1", condition.lanes)
        total = condition.parts[0]
        for other in condition.parts[1:]:
            total = self.out.emit(lines, f"or {ty} {total}, {other}")
        name = f"@llvm.vector.reduce.or.{p.mangle(ty)}"
        self.out.declared[name] = f"declare i1 {name}({ty})"
        return self.out.emit(lines, f"call i1 {name}({ty} {total})")

    # Scopes and invalidation

    def push(self, label: str, loop: VectorLoop | None = None, is_guard: bool = False) -> Scope:
        inherited = loop or self.scopes[-1].loop
        scope = Scope(len(self.scopes), label, inherited, is_guard)
        self.scopes.append(scope)
        return scope

    def pop(self) -> Scope:
        return self.scopes.pop()

    def dependencies(self, value: Value) -> frozenset:
        """Names and ("operand", k) pairs that a Value reads."""
        known = self.uses.get(value)
        if known is not None:
            return known
        for item in walk((value,), self.uses):
            own = {item.attr} if item.op == "var" else set()
            if item.op in ("arg", "load"):
                own = {("operand", item.attr)}
                if item.op == "arg":
                    own |= self.dependencies(self.nest.point[item.attr])
            self.uses[item] = frozenset(own.union(*[self.uses[a] for a in item.args]))
        return self.uses[value]

    def forget(self, changed: set) -> None:
        """Drop memoised Values that read a name or operand in `changed`."""
        if not changed:
            return
        for scope in self.scopes:
            stale = [v for v in scope.memo if isinstance(v, Value) and not changed.isdisjoint(self.dependencies(v))]
            for value in stale:
                del scope.memo[value]

    # Statements

    def block(self, body: Sequence[Statement], outer: bool = False) -> None:
        """Lower statements; names declared here end with the block."""
        self.statements(body, outer)
        self.undeclare(body)

    def undeclare(self, body: Sequence[Statement]) -> None:
        for name in declared_names(body):
            self.env.pop(name, None)

    def statements(self, body: Sequence[Statement], outer: bool = False) -> None:
        index = 0
        while index < len(body):
            s = body[index]
            if isinstance(s, Store):
                group = self.store_group(body, index)
                self.stores(group)
                index += len(group)
                continue
            index += 1
            if isinstance(s, Local):
                self.env[s.name] = self.evaluate(s.value)
                if s.name not in self.assigned:
                    self.definitions[s.name] = s.value
                self.forget({s.name})
            elif isinstance(s, Assign):
                self.env[s.name] = self.evaluate(s.value)
                self.forget({s.name})
            elif isinstance(s, (For, Reduce)):
                self.loop(s, outer)
            elif isinstance(s, If):
                self.branch(s)
            elif isinstance(s, (Pack, Multiply)):
                self.tile(s)
            elif isinstance(s, Fetch):
                self.fetch(s)
            else:
                failed = (Store(s.cell, ZERO, s.value),)
                self.branch(If(s.condition, tuple(body[index:]), failed))
                break

    def store_group(self, body: Sequence[Statement], index: int) -> list[Store]:
        """Consecutive stores of which none reads what an earlier one wrote: all values are computed first."""
        group: list[Store] = []
        written: set = set()
        for s in body[index:]:
            if not isinstance(s, Store):
                break
            reads = set(self.dependencies(s.value))
            if s.index is not None:
                reads |= self.dependencies(s.index)
            if s.combine != "set":
                reads.add(("operand", s.operand))
            if not reads.isdisjoint(written):
                break
            group.append(s)
            written.add(("operand", s.operand))
        return group

    def stores(self, group: list[Store]) -> None:
        atomic = self.target.is_gpu  # there, other threads may be combining into the same element
        swapped = [s for s in group if atomic and s.combine == "swap"]
        plain = [s for s in group if s not in swapped]
        values = [self.evaluate(s.value if atomic else self.combined(s)) for s in plain]
        for s in swapped:
            self.swap(s)
        for s, reg in zip(plain, values, strict=True):
            if atomic and s.combine != "set":
                self.combine_atomically(s, reg)
            else:
                self.write_operand(s.operand, s.index, reg, s.combine)
        self.forget({("operand", s.operand) for s in group})

    def combined(self, s: Store) -> Value:
        if s.combine == "set":
            return s.value
        code = s.value.dtype
        old = arg(s.operand, code) if s.index is None else load(s.operand, s.index, code)
        if s.combine == "swap":
            return rewrite([s.value], lambda v: old if v.op == "var" and v.attr == THERE else None)[0]
        return BUILD[s.combine](old, s.value)

    def tile(self, s: Pack | Multiply) -> None:
        """A call of a function of its own: a tile's sums and pointers are all the registers there are."""
        function, given = self.tile_call(s)
        texts = []
        for item in given:
            reg = self.evaluate(item[1] if isinstance(item, tuple) else item)
            if reg.lanes:
                raise NotVector
            if isinstance(item, tuple):
                element = p.MEMORY[self.nest.operands[item[0]].code]
                texts.append(f"ptr {self.scalar_address(item[0], reg, element, self.scopes[-1].depth)}")
            else:
                texts.append(f"{p.REGISTER[reg.code]} {reg.parts[0]}")
        self.have(function)
        self.scopes[-1].lines.append(f"  call void @{function.name}({', '.join(texts)})")
        self.forget({("operand", k) for k in stored_operands((s,))})

    def have(self, function: TileFunction) -> None:
        """A function in the module, or declared there."""
        if self.shares:
            declared = [function.declaration()]
        else:
            declared = function.intrinsics()
            for each in (*function.callees(), function):
                if each.name not in self.functions:
                    self.functions.update(each.texts())
        self.out.declared.update({line[line.index("@") : line.index("(")]: line for line in declared})

    def tile_call(self, s: Pack | Multiply) -> tuple[TileFunction, list]:
        """The function, and what it is given: values, and (operand, place) pairs for addresses."""
        shape = TileShape(self.nest.operands[s.a if isinstance(s, Multiply) else s.source].code, self.target)
        if isinstance(s, Pack):
            given = [(s.source, s.start), s.line, s.step, (s.target, s.at), s.apart, s.lines, s.length, s.count]
            return pack_function(shape, s.width, is_const(s.step, 1), s.pairs), given
        given = [(s.a, s.a_at), (s.b, s.b_at), s.b_step, (s.c, s.c_at), s.c_step, s.rows, s.columns, s.depth, s.add]
        if s.keep is not None:
            left, left_at, right, right_at = s.keep
            given = [*given[:5], *given[7:], s.pitch, (left, left_at), (right, right_at)]
            return keep_function(shape, s.height, s.vectors), given
        if s.line is not None:
            function = rows_function(shape, s.height, s.vectors, s.ahead is not None)
            some = given[5:] if function.kind == "lines" else given[6:]
            return function, [given[0], s.line, *given[1:5], *some, *([] if s.ahead is None else [(s.b, s.ahead)])]
        function = multiply_function(shape, s.height, s.vectors, s.pitch is not None, s.ahead is not None)
        if function.has_pitch:
            given.append(const(shape.pitch(s.height), "i64") if s.pitch is None else s.pitch)
        given += [] if s.ahead is None else [(s.b, s.ahead)]
        return function, given

    def branch(self, s: If) -> None:
        condition = self.evaluate(s.condition)
        if condition.lanes:
            raise NotVector
        then, otherwise, after = self.out.label(), self.out.label(), self.out.label()
        here = self.scopes[-1]
        carried = self.carried_names(s.then + s.otherwise)
        before = {name: self.env[name] for name in carried}
        ends: list[tuple[str, dict[str, Reg]]] = []
        text = [f"  br i1 {condition.parts[0]}, label %{then}, label %{otherwise}"]
        for label, body in ((then, s.then), (otherwise, s.otherwise)):
            self.env.update(before)
            scope = self.push(label, is_guard=True)
            self.block(body)
            ends.append((scope.label, {name: self.to_loop_width(self.env[name]) for name in carried}))
            self.pop()
            text += [f"{label}:", *scope.lines, f"  br label %{after}"]
        here.lines += [*text, f"{after}:"]
        here.label = after
        self.join(ends)
        self.forget(carried | {("operand", k) for k in stored_operands(s.then + s.otherwise)})

    def to_loop_width(self, reg: Reg) -> Reg:
        """Inside a vector loop, names that change live on all lanes."""
        loop = self.scopes[-1].loop
        return reg if loop is None else self.widen(reg, loop.lanes, loop.unroll)

    def join(self, ends: list[tuple[str, dict[str, Reg]]]) -> None:
        """Phis, in the current block, for the names that arrive with different values."""
        for name in ends[0][1]:
            regs = [values[name] for _, values in ends]
            self.env[name] = self.phi(regs, [label for label, _ in ends])

    def phi(self, regs: list[Reg], labels: list[str]) -> Reg:
        lanes, count = max(r.lanes for r in regs), max(len(r.parts) for r in regs)
        regs = [self.widen(r, lanes, count) if r.lanes != lanes or len(r.parts) != count else r for r in regs]
        here = self.scopes[-1]
        code = regs[0].code
        halves = []
        for half in ("parts", "imag"):
            if getattr(regs[0], half) is None:
                halves.append(None)
                continue
            ty = p.type_of(p.PARTS.get(code, code), lanes)
            halves.append([
                self.out.emit(here.lines, f"phi {ty} " + ", ".join(
                    f"[ {getattr(r, half)[u]}, %{label} ]" for r, label in zip(regs, labels, strict=True)))
                for u in range(count)
            ])
        return Reg(code, lanes, halves[0], here.depth, imag=halves[1])

    def carried_names(self, body: Sequence[Statement]) -> set[str]:
        """Names declared outside `body` that it assigns."""
        return {name for name in assigned_names(body) if name in self.env}

    # Loops

    def loop(self, s: For | Reduce, outer: bool = False) -> None:
        start, stop = self.evaluate(s.start), self.evaluate(s.stop)
        if start.lanes or stop.lanes:
            raise NotVector
        carried = self.carried_names(s.body)
        accs: dict[str, Reg] = {}
        if isinstance(s, Reduce):
            accs = {acc: self.evaluate(first) for acc, first in zip(s.accs, s.init, strict=True)}
        changed = carried | set(accs) | {("operand", k) for k in stored_operands(s.body)}
        self.forget(changed)
        here = self.scopes[-1]
        inside, after = self.out.label(), self.out.label()
        start, step = self.loop_range(s, outer, start)
        test = self.out.emit(here.lines, f"icmp slt i64 {start.parts[0]}, {stop.parts[0]}")
        before = {name: self.to_loop_width(reg) for name, reg in ({n: self.env[n] for n in carried} | accs).items()}
        guard = self.push(inside, is_guard=True)
        ends = [(here.label, before)]
        done, whole = None, False
        if s.vector and self.target.vector_bits and here.loop is None and not carried:
            done = self.vector_loop(s, start, stop, accs)
            whole = done is not None and not self.tested and self.leaves_no_rest(s)
            if done is not None and not whole and isinstance(s, For) and only_moves(s):
                done = self.moving_loops(s, start, stop, done[0]), {}
            elif done is not None and not whole and wants_single_vectors(s, self.nest, self.target):
                done = self.vector_loop(s, done[0], stop, accs, so_far=done[1])
        first, accs_now = (start, before) if done is None else done
        if whole:
            ends.append((guard.label, done[1]))
        else:
            ends.append(self.serial_loop(s, first, stop, accs_now, guard, skip=done is not None, step=step))
        self.pop()
        here.lines.append(f"  br i1 {test}, label %{inside}, label %{after}")
        here.lines += [f"{inside}:", *guard.lines, f"  br label %{after}", f"{after}:"]
        here.label = after
        self.join(ends)
        self.env.pop(s.var, None)
        self.forget(changed | {s.var})

    def leaves_no_rest(self, s: For | Reduce) -> bool:
        """Whether the number of iterations is known to be one of whole vectors."""
        lanes, unroll = choose_width(s, self.nest, self.target)
        known = known_factor(s, lanes)
        return known > 0 and known % (lanes * unroll) == 0

    def serial_loop(
        self, s: For | Reduce, start: Reg, stop: Reg, carried: dict[str, Reg], guard: Scope, skip: bool, step: str
    ) -> tuple[str, dict[str, Reg]]:
        """One element at a time (all lanes together inside a vector loop). With `skip` it may run zero times.

        The guard's own text ends where the loop begins; returns the block and values it leaves with.
        """
        top, after = self.out.label(), self.out.label()
        entry_label = guard.label
        scope = self.push(top)
        counter = self.out.fresh()
        self.env[s.var] = Reg("i64", 0, [counter], scope.depth)
        phis: dict[str, Reg] = {}
        for name, reg in carried.items():
            fresh = [self.out.fresh() for _ in reg.parts]
            imag = None if reg.imag is None else [self.out.fresh() for _ in reg.imag]
            phis[name] = self.env[name] = Reg(reg.code, reg.lanes, fresh, scope.depth, imag=imag)
        self.loop_body(s)
        finals = {name: self.to_loop_width(self.env[name]) for name in carried}
        going = None if isinstance(s, Reduce) or s.going is None else self.any_true(self.evaluate(s.going))
        self.pop()
        following = self.out.emit(scope.lines, f"add nsw i64 {counter}, {step}")
        test = self.out.emit(scope.lines, f"icmp slt i64 {following}, {stop.parts[0]}")
        if going is not None:
            test = self.out.emit(scope.lines, f"and i1 {test}, {going}")
        lines = guard.lines
        if skip:
            needed = self.out.emit(lines, f"icmp slt i64 {start.parts[0]}, {stop.parts[0]}")
            lines.append(f"  br i1 {needed}, label %{top}, label %{after}")
        else:
            lines.append(f"  br label %{top}")
        latch = scope.label
        lines += [f"{top}:", f"  {counter} = phi i64 [ {start.parts[0]}, %{entry_label} ], [ {following}, %{latch} ]"]
        for name, reg in phis.items():
            lines += self.phi_lines(reg, carried[name], entry_label, finals[name], latch)
        lines += [*scope.lines, f"  br i1 {test}, label %{top}, label %{after}{self.note_of(s)}", f"{after}:"]
        guard.label = after
        if skip:
            for name in carried:
                finals[name] = self.phi([carried[name], finals[name]], [entry_label, latch])
        return guard.label, finals

    def note_of(self, s: For | Reduce) -> str:
        """What the branch back to a loop's first instruction says of the loop."""
        if not any(s is one for one in self.short_loops):
            return ""
        number = len(self.notes)
        self.notes.append(f"!{number} = distinct !{{!{number}, !0}}")
        return f", !llvm.loop !{number}"

    def loop_range(self, s: For | Reduce, outer: bool, start: Reg) -> tuple[Reg, str]:
        """Where a loop starts and how far it steps; threads of a GPU share loops (nvptx/lower.py)."""
        return start, "1"

    def loop_body(self, s: For | Reduce) -> None:
        self.reduce_body(s) if isinstance(s, Reduce) else self.block(s.body)

    def phi_lines(self, reg: Reg, first: Reg, first_label: str, last: Reg, last_label: str) -> list[str]:
        ty = p.type_of(p.PARTS.get(reg.code, reg.code), reg.lanes)
        lines = []
        for half in ("parts", "imag"):
            names = getattr(reg, half)
            for u, name in enumerate(names or ()):
                a, b = getattr(first, half)[u], getattr(last, half)[u]
                lines.append(f"  {name} = phi {ty} [ {a}, %{first_label} ], [ {b}, %{last_label} ]")
        return lines

    def reduce_body(self, s: Reduce) -> None:
        """One step: the body's stores and locals, then all accumulators at once."""
        self.statements(s.body)
        following = [self.evaluate(value) for value in s.step]
        self.undeclare(s.body)
        self.env.update(zip(s.accs, following, strict=True))
        self.forget(set(s.accs))


def declared_names(body: Sequence[Statement]) -> set[str]:
    names = {s.name for s in body if isinstance(s, Local)}
    return names.union(*[s.accs for s in body if isinstance(s, Reduce)])


def assigned_names(body: Sequence[Statement]) -> set[str]:
    """Names that Assign changes anywhere inside."""
    names: set[str] = set()
    for s in body:
        if isinstance(s, Assign):
            names.add(s.name)
        elif isinstance(s, (For, Reduce)):
            names |= assigned_names(s.body)
        elif isinstance(s, If):
            names |= assigned_names(s.then) | assigned_names(s.otherwise)
    return names


def stored_operands(body: Sequence[Statement], cells: bool = True) -> set[int]:
    """Operands written anywhere inside; with `cells`, those that checks write to."""
    found: set[int] = set()
    for s in body:
        if isinstance(s, Store):
            found.add(s.operand)
        elif isinstance(s, Check) and cells:
            found.add(s.cell)
        elif isinstance(s, (Pack, Multiply)):
            found |= {s.target} if isinstance(s, Pack) else {s.c, *(s.keep or ())[::2]}
        elif isinstance(s, (For, Reduce)):
            found |= stored_operands(s.body, cells)
        elif isinstance(s, If):
            found |= stored_operands(s.then, cells) | stored_operands(s.otherwise, cells)
    return found



def lower_nest(nest: Nest, target: Target, shares: bool = False) -> str:
    """LLVM IR text of the kernel; named calls are expanded first. `shares`: functions of tiles are elsewhere."""
    if target.vector_bits:
        nest = in_tiles(in_memory_order(nest))
    return Lowering(expand_calls(nest, target), target, shares).text()


def expand_calls(nest: Nest, target: Target) -> Nest:
    """The nest with named functions replaced by primitives, or by instructions the target has for them."""
    values = values_of(nest)
    if not any(item.op in ("call", "select") or (item.op == "div" and target.is_gpu) for item in walk(values)):
        return nest
    stored = stored_operands((nest.loop,), cells=False)
    rule = rule_for(nest, stored) if target.is_gpu else cpu_rule(nest, stored, target)
    changed = values if rule is None else rewrite(values, rule)
    if any(item.op == "call" for item in walk(changed)):
        from ...loops.math.expand import (
            lower,
        )  # its tables take milliseconds to load, and plain arithmetic needs none of them

        changed = lower(changed)
    return map_values(nest, dict(zip(values, changed, strict=True)))


def cpu_rule(nest: Nest, stored: set[int], target: Target) -> Callable[[Value], Value | None] | None:
    """What makes other expressions of functions in a kernel that stores to the operands `stored`: instructions that the
    target has for them, and shorter forms where all results are rounded to bfloat16."""
    own = native_extreme if target.has_maximum else None
    if not stored or any(nest.operands[k].code != "bf16" for k in stored):
        return own
    from ...loops.math.normal import short_form  # few kernels store nothing else

    def rule(value: Value) -> Value | None:
        short = short_form(value)
        return own(value) if short is None and own is not None else short

    return rule
