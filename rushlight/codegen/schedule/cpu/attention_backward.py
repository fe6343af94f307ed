"""CPU schedules of attention's gradients: weights made again block by block, and five products around them.

Enters: an element type, whether attention is causal, the mask's type. Leaves: a nest over (batch, head of keys), for
gradients of keys and values are sums over all queries that met them. A block of keys meets one block of queries after
another: scores and slopes (gradient times values) are products of packed rows, a loop over their rows makes them
weights and gradients of scores, and those times gradient, query and key are added to the three results. Weights of a
block lie row by row, which is how the products over queries read them; for the product over keys they are packed.
What products read where it lies has rows of whole vectors (callers copy others).
"""

from __future__ import annotations

from ....loops import expr
from ....loops.expr import Value, cast, const, gt, idiv, irem, load, max_, min_, ne, var
from ....loops.nest import For, If, Local, Multiply, Nest, Operand, Pack, Statement, Store, operands, rows
from .attention import ONE, SPAN, ZERO, Attention, fold, strides
from .product import number

SIZES = ("heads", "group", "length", "keys", "width", "value_width", "scale")
TENSORS = ("gradient", "query", "key", "value", "d_query", "d_key", "d_value")


def backward_params(mask: str | None) -> tuple[str, ...]:
    return (*SIZES, *(p for name in TENSORS for p in strides(name)), *(strides("mask", "bhrc") if mask else ()))


def backward_nest(code: str, causal: bool, mask: str | None, bits: int = 0) -> Nest:
    """Operands: gradient, query, key, value, logarithms, inner products, [mask], gradients of query, key and value.

    The logarithms, and the inner products of result and gradient, are dense: a number per query."""
    return _Backward(code, causal, mask, bits).nest()


class _Backward(Attention):
    def __init__(self, code: str, causal: bool, mask: str | None, bits: int) -> None:
        super().__init__(code, causal, mask, bits)
        self.d_query = 7 if mask else 6
        self.d_key, self.d_value = self.d_query + 1, self.d_query + 2
        own = self.d_query + 3                           # the kernel's own memory
        self.scores, self.slopes, self.packed_keys, self.packed_values = range(own, own + 4)
        self.queries, self.gradients, self.packed = range(own + 4, own + 7)
        self.block = number(self.cut.group * self.cut.height)

    def nest(self) -> Nest:
        cut, code = self.cut, self.code
        scores, packed = cut.group * cut.height * self.pitch, cut.group * SPAN * cut.pitch
        stack = [scores, scores, SPAN * cut.keys, SPAN * cut.keys]
        stack += [] if self.in_lines else [packed, packed, cut.group * cut.keys * cut.pitch]
        body = (
            Local("own", irem(var("i"), var("heads"))),
            Local("b", idiv(var("i"), var("heads"))),
            self.slices("width"),
            self.slices("value_width"),
            *self.factor(),
            For("j", ZERO, idiv(var("keys") + number(cut.keys - 1), self.keys), (
                Local("j0", var("j") * self.keys),
                Local("some", min_(self.keys, var("keys") - var("j0"))),
                self.cleared("d_key", self.d_key, "width", "y"),
                self.cleared("d_value", self.d_value, "value_width", "x"),
                If(expr.eq(var("width.n"), ONE), (self.pack_keys("key", 2, self.packed_keys, ZERO, var("width")),)),
                If(expr.eq(var("value_width.n"), ONE), (
                    self.pack_keys("value", 3, self.packed_values, ZERO, var("value_width")),
                )),
                For("g", ZERO, var("group"), (
                    Local("h", var("own") * var("group") + var("g")),
                    For("q", ZERO, idiv(var("length") + self.block - ONE, self.block), self.meet()),
                )),
            )),
        )
        codes = [code] * 6 + ([self.mask] if self.mask else [])
        name = self.named("attention_backward")
        own = [Operand(code, count) for count in stack]
        return Nest(name, (*operands(codes, [code] * 3), *own), backward_params(self.mask), rows(*body))

    def slices(self, width: str) -> Local:
        return Local(f"{width}.n", max_(ONE, idiv(var(width) + number(SPAN - 1), number(SPAN))))

    def cleared(self, name: str, operand: int, width: str, prefix: str) -> For:
        """Nothing added yet to the block's rows of a result."""
        r, c = var(f"{prefix}.r"), var(f"{prefix}.c")
        store = Store(operand, self.at(name, "own", var("j0") + r) + c, const(0, self.code))
        return For(r.attr, ZERO, var("some"), (For(c.attr, ZERO, var(width), (store,), vector=True),))

    def pack_keys(self, name: str, operand: int, target: int, start: Value, deep: Value) -> Pack:
        """The block's rows of keys or values, as columns of a product: elements from `start` on."""
        return Pack(operand, self.at(name, "own", var("j0")) + start, var(f"{name}.r"), ONE,
                    target, ZERO, deep * self.wide, var("some"), deep,
                    self.strips(var("some")), self.cut.width)

    def meet(self) -> tuple[Statement, ...]:
        """A block of queries meets the block of keys."""
        seen = min_(var("some"), var("i0") + var("tall") - var("j0")) if self.causal else var("some")
        work = (
            self.products("s", "query", 1, self.queries, "width", ("key", 2, self.packed_keys), self.scores),
            self.products(
                "o", "gradient", 0, self.gradients, "value_width", ("value", 3, self.packed_values), self.slopes
            ),
            For("r", ZERO, var("tall"), self.weights()),
            self.down("v", self.scores, "gradient", 0, "d_value", self.d_value, "value_width"),
            self.down("k", self.slopes, "query", 1, "d_key", self.d_key, "width"),
            *self.along(),
        )
        return (
            Local("i0", var("q") * self.block),
            Local("tall", min_(self.block, var("length") - var("i0"))),
            Local("row_strips", idiv(var("tall") + self.height - ONE, self.height)),
            Local("seen", seen),
            *((If(gt(var("seen"), ZERO), work),) if self.causal else work),
        )

    def products(
        self, prefix: str, name: str, operand: int, packed: int, width: str, keys: tuple[str, int, int], target: int
    ) -> For:
        """Rows of the block of queries times all keys (or values) of the block, some elements of a head at a time."""
        key, key_operand, packed_keys = keys
        apart = number(SPAN * self.cut.pitch)
        start, deep, s, t = var("start"), var("deep"), var(f"{prefix}.s"), var(f"{prefix}.t")
        rows, line = self.at(name, "h", var("i0")) + start, var(f"{name}.r")
        left, pitch = (packed, s * apart), self.packed_pitch
        pack = Pack(operand, rows, line, ONE, packed, ZERO, apart,
                    var("tall"), deep, var("row_strips"), self.cut.height)
        if self.in_lines:
            left, pitch = (operand, rows + s * self.height * line), None
        tile = Multiply(
            *left, packed_keys, t * deep * self.wide, self.wide,
            target, s * self.height * self.row + t * self.wide, self.row,
            min_(self.height, var("tall") - s * self.height), self.some_columns(t, (s + ONE) * self.height),
            deep, ne(start, ZERO), self.cut.height, self.cut.vectors, pitch, line=line if self.in_lines else None,
        )
        return For(f"{prefix}.slice", ZERO, var(f"{width}.n"), (
            Local("start", var(f"{prefix}.slice") * number(SPAN)),
            Local("deep", min_(number(SPAN), var(width) - start)),
            If(gt(var(f"{width}.n"), ONE), (self.pack_keys(key, key_operand, packed_keys, start, deep),)),
            *(() if self.in_lines else (pack,)),
            For(t.attr, ZERO, self.strips(var("seen")), (
                For(s.attr, self.first_strip(t, ZERO), var("row_strips"), (tile,)),
            )),
        ))

    def weights(self) -> tuple[Statement, ...]:
        """A row of scores to weights, of slopes to gradients of scores."""
        code, place, row = self.code, var("r") * self.row, var("i0") + var("r")
        j = var("w.j")
        number_of_row = (var("b") * var("heads") * var("group") + var("h")) * var("length") + row
        hide = self.hidden(place, const(0, code))
        if self.mask is None:
            before: tuple[Statement, ...] = (hide,)
            power = expr.fma(load(self.scores, place + j, code), var("factor", code), -var("log", code))
        else:
            value = self.score(place, row, var("m.j"), 6)
            masked = For("m.j", ZERO, var("limit"), (Store(self.scores, place + var("m.j"), value),), vector=True)
            before = (masked, hide)
            power = load(self.scores, place + j, code) - var("log", code)
        slope = (load(self.slopes, place + j, code) - var("inner", code)) * var("slope.factor", code)
        return (
            self.visible(row),
            self.turns(),
            Local("log", load(4, number_of_row, code)),
            Local("inner", load(5, number_of_row, code)),
            *before,
            For(j.attr, ZERO, self.padded, (
                Local("p", expr.call("weight_of_score", power)),
                Store(self.slopes, place + j, var("p", code) * slope),
                Store(self.scores, place + j, var("p", code)),
            ), vector=True),
        )

    def down(self, prefix: str, a: int, name: str, operand: int, gradient: str, target: int, width: str) -> For:
        """Sums over the block's queries, those before the keys left out, added to rows of keys."""
        s, c, skipped = var(f"{prefix}.s"), var(f"{prefix}.c"), var("skipped")
        first, column = s * self.height, c * self.wide
        tile = Multiply(
            a, first + skipped * self.row, operand, self.at(name, "h", var("i0") + skipped) + column, var(f"{name}.r"),
            target, self.at(gradient, "own", var("j0") + first) + column, var(f"{gradient}.r"),
            min_(self.height, var("seen") - first), min_(self.wide, var(width) - column), var("tall") - skipped,
            const(True, "b1"), self.cut.height, self.cut.vectors, self.row,
        )
        strips = idiv(var("seen") + self.height - ONE, self.height)
        before = Local("skipped", max_(ZERO, var("j0") + first - var("i0")) if self.causal else ZERO)
        return For(s.attr, ZERO, strips, (before, self.columns(c.attr, var(width), tile)))

    def along(self) -> tuple[Statement, ...]:
        """Sums over the block's keys, added to rows of queries."""
        cut = self.cut
        s, c, k0 = var("a.s"), var("a.c"), var("k0")
        first, column = s * self.height, c * self.wide
        left, pitch = (self.packed, (s * self.keys + k0) * number(cut.pitch)), self.packed_pitch
        if self.in_lines:
            left, pitch = (self.slopes, first * self.row + k0), None
        tile = Multiply(
            *left,
            2, self.at("key", "own", var("j0") + k0) + column, var("key.r"),
            self.d_query, self.at("d_query", "h", var("i0") + first) + column, var("d_query.r"),
            min_(self.height, var("tall") - first), min_(self.wide, var("width") - column),
            var("long"), gt(var("j0") + k0, ZERO), cut.height, cut.vectors, pitch,
            line=self.row if self.in_lines else None,
        )
        pack = Pack(self.slopes, ZERO, self.row, ONE, self.packed, ZERO, number(cut.keys * cut.pitch),
                    var("tall"), self.whole(var("seen")), var("row_strips"), cut.height)
        sums = For("a.k", ZERO, idiv(var("seen") + number(cut.depth - 1), number(cut.depth)), (
            Local("k0", var("a.k") * number(cut.depth)),
            For(s.attr, ZERO, var("row_strips"), self.weighed(s.attr, ZERO, c.attr, "width", tile)),
        ))
        return (sums,) if self.in_lines else (pack, sums)


INNER_PARAMS = ("heads", "rows", "width", *strides("gradient"), *strides("out"))


def inner_nest(code: str) -> Nest:
    """Per row, the inner product of gradient and result, of bfloat16 in float: parallel over batch and heads."""
    wide = "f32" if code == "bf16" else code
    r, j = var("r"), var("dot.j")
    b, h = idiv(var("i"), var("heads")), irem(var("i"), var("heads"))
    places = [b * var(f"{n}.b") + h * var(f"{n}.h") + r * var(f"{n}.r") + j for n in ("gradient", "out")]
    first, second = (cast(load(k, place, code), wide) for k, place in enumerate(places))
    dot = fold("dot", var("width"), const(0, wide), first * second, [], expr.add)
    body = For("r", ZERO, var("rows"), (dot, Store(2, var("i") * var("rows") + r, var("dot", wide))))
    return Nest("attention_inner", operands([code, code], [wide]), INNER_PARAMS, rows(body))
