"""Attention that programs write out, as the one op that holds no scores.

Enters: a graph that Dynamo captured. Leaves: what runs it while it is traced, with

    scores = q @ k.transpose(-2, -1) * scale        (mul, div)
    scores = scores.masked_fill(hidden, -inf)       (where; or a mask that is added; or both)
    softmax(scores, -1) @ v                         (casts, dropout that drops nothing)

as one call of attention, where nobody else reads what lies between, so that the backward is attention's too. Graphs say
only how ops hang together: types, sizes and who needs gradients are asked of the tensors of the trace, and where
attention does not take them (a mask that is learned, another type, heads that are broadcast) the ops run as written.
Rows in which nothing is visible are NaN as softmax makes them; attention by itself would make them zeros. Masks are
added: a score that is infinite or NaN shows where it is hidden too, as in attention of any mask.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _C
from ..definitions.attention.flash import FlashAttention
from ..definitions.attention.scaled import HALF, fits_flash
from ..fx.interpreter import Interpreter
from ..fx.node import Node
from ..op import find_op
from .thread_casts import autocast_state

if TYPE_CHECKING:
    from ..fx.graph_module import GraphModule

PRODUCTS, SOFTMAX, FACTORS = ("matmul", "bmm"), "softmax", ("mul", "multiply", "div", "divide", "true_divide")
CASTS = ("to", "float", "type_as", "type")
COPIES = ("contiguous", "reshape", "flatten", "clone")      # which make of heads behind each other one row of all
TYPES = ("f32", "f64", "bf16", "f16")


class Attention:
    """One attention of a graph: the nodes that write it out, and what they mean."""

    def __init__(self, last: Node) -> None:
        self.last, self.value = last, last.args[1]
        self.nodes: list[Node] = []      # from the last product up to the first
        self.factors: list[tuple[str, float]] = []
        self.masks: list[tuple[str, Node]] = []      # how each hides scores, the last one first
        self.types: list[Any] = []      # that values are cast to on the way, or nodes of that type
        self.is_soft = False

    def found(self, node: Any) -> bool:
        """Whether the nodes from `node` back to a product write attention out."""
        reader: Node = self.last
        while isinstance(node, Node) and {n for n in node.users if not is_dead(n)} == {reader}:
            name = name_of(node)
            if not name or not node.args:
                return False
            self.nodes.append(node)
            if name in PRODUCTS and len(node.args) == 2 and not node.kwargs:
                self.query, self.turned_key = node.args
                given = (*node.args, self.value)
                return self.is_soft and all(isinstance(n, Node) for n in given) and nothing_happens(node, self.last)
            source = self.source(node, name)
            if source is None:
                return False
            reader, node = node, source
        return False

    def source(self, node: Node, name: str) -> Any:
        """What the node is computed of, once it is noted what it does to that; None where it does something else."""
        first, *rest = [*node.args, *node.kwargs.values()]
        if name == SOFTMAX and not self.is_soft:
            self.is_soft = rest[:1] in ([-1], [3]) and {*node.kwargs} <= {"dim", "dtype", "_stacklevel"}
            self.types += [x for x in rest[1:] if isinstance(x, _C.dtype)]
            return first if self.is_soft else None
        if name in CASTS and not node.kwargs and len(rest) == (name != "float"):
            self.types += rest or [_C.float32]
            return first if all(isinstance(x, (_C.dtype, Node)) for x in rest) else None
        if name == "dropout" and len(node.args) + len(node.kwargs) >= 2:
            return first if drops_nothing(node) else None
        if not self.is_soft or node.kwargs:
            return None
        if name in FACTORS and len(rest) == 1:
            return self.scaled(first, rest[0], is_product=name in FACTORS[:2])
        if self.factors:      # of scores that are masked already
            return None
        if name == "add" and len(rest) == 1 and all(isinstance(x, Node) for x in node.args):
            place = 0 if leads_to_product(first) else 1
            self.masks.append(("added", node.args[1 - place]))
            return node.args[place]
        if name == "masked_fill" and rest[1:] == [-math.inf]:
            self.masks.append(("hidden", rest[0]))
            return first
        if name == "where" and len(rest) == 2 and -math.inf in rest:
            self.masks.append(("hidden" if rest[0] == -math.inf else "visible", first))
            return rest[1 if rest[0] == -math.inf else 0]
        return None

    def scaled(self, first: Any, second: Any, is_product: bool) -> Any:
        """The operand that is a tensor, once the other one, a number, is noted."""
        source, factor = (second, first) if is_product and isinstance(second, Node) else (first, second)
        if type(factor) not in (int, float) or not math.isfinite(factor) or not factor:
            return None
        self.factors.append(("mul" if is_product else "div", factor))
        return source

    # --- while the graph is traced ------------------------------------------------------------------------------------

    def run(self, of: Callable[[Any], Any]) -> Any:
        """The result, by attention; None where that does not take these tensors."""
        query, turned, value = of(self.query), of(self.turned_key), of(self.value)
        tensors = query, turned, value
        if any(t.ndim != query.ndim or t.dtype is not query.dtype for t in tensors):
            return None
        if query.ndim not in (3, 4) or query.dtype.code not in TYPES or autocast_state() is not None:
            return None
        masks = [(how, of(mask)) for how, mask in self.masks]
        if query.device.type != "cpu" or not self.keeps_types(query.dtype, of) or not are_masks(masks, query):
            return None
        key = turned.transpose(-2, -1)
        added = joined(masks, _C.float64 if query.dtype is _C.float64 else _C.float32)
        if query.ndim == 3:
            query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
            added = added if added is None or added.ndim < 3 else added.unsqueeze(1)
        if not fits_flash(query, key, value, added, False):
            return None
        if not FlashAttention.has_kernels(query, key, value, added, (query, key, value)):
            return None
        scale = 1.0
        for how, factor in self.factors:
            scale = scale * factor if how == "mul" else scale / factor
        flash = find_op("_scaled_dot_product_flash_attention_for_cpu")
        result = flash(query, key, value, 0.0, False, attn_mask=added, scale=scale)[0]
        result = result if turned.ndim == 4 else result.squeeze(1)
        return result if self.is_joined_next() else result.contiguous()      # laid out as a product's

    def keeps_types(self, own: Any, of: Callable[[Any], Any]) -> bool:
        """Whether casts on the way lose nothing that attention would keep."""
        types = [of(t).dtype if isinstance(t, Node) else t for t in self.types]
        return all(t is own or (t is _C.float32 and own in HALF) for t in types)

    def is_joined_next(self) -> bool:
        """Whether all that happens to the result is that heads are put side by side: it may lie so from the start."""
        (user, *others) = self.last.users or (None,)
        if others or user is None or name_of(user) not in ("transpose", "swapaxes") or user.args[1:] != (1, 2):
            return False
        return all(name_of(n) in COPIES for n in user.users)


def name_of(node: Node) -> str:
    """The name of the op that a node calls; nothing for other nodes."""
    return node.target.__name__ if node.op == "call_function" and isinstance(node.target, _C.Op) else ""


def is_dead(node: Node) -> bool:
    """Whether nobody reads what the node makes, which does nothing else: what Dynamo left of ops without an effect."""
    return not node.users and (name_of(node) in CASTS or (name_of(node) == "dropout" and drops_nothing(node)))


def nothing_happens(first: Node, last: Node) -> bool:
    """Whether between two nodes nothing is written to and no mode is changed, so that the last sees what the first saw.
    Functions that are no ops may do either."""
    node = first.next
    while node is not last:
        name = name_of(node)
        is_op = bool(name) and (not name.endswith("_") or name.endswith("__")) and "out" not in node.kwargs
        if node.op == "call_function" and not is_op and node.target is not operator.getitem:
            return False
        node = node.next
    return True


def drops_nothing(node: Node) -> bool:
    """Whether dropout is off."""
    given = [*node.args[1:], *node.kwargs.values()]
    return given[0] == 0 or given[1:2] == [False]


def leads_to_product(node: Any) -> bool:
    """Whether a sum's operand is the scores: products, scaled or hidden in part."""
    while isinstance(node, Node):
        name = name_of(node)
        if name in PRODUCTS:
            return True
        if name not in (*FACTORS, "masked_fill", "add", *CASTS):
            return False
        node = node.args[0] if node.args else None
    return False


def are_masks(masks: Sequence[tuple[str, Any]], query: Any) -> bool:
    """Whether attention can take the masks: bits, or numbers that nobody learns."""
    for how, mask in masks:
        if not isinstance(mask, _C.Tensor) or not mask.ndim or mask.device != query.device or mask.requires_grad:
            return False
        if how != "added" and mask.dtype is not _C.bool:
            return False
        if how == "added" and mask.dtype.code not in (*TYPES[2:], "f32", query.dtype.code):
            return False
    return True


def joined(masks: Sequence[tuple[str, Any]], dtype: Any) -> Any:
    """The masks, of which the last comes first, as one that is added: NaN in rows of which nothing is visible."""
    result: Any = None
    for how, mask in reversed(masks):
        while mask.ndim < 2:
            mask = mask.unsqueeze(0)
        if how == "added":
            result = mask.to(dtype) if result is None else result + mask.to(dtype)
            continue
        hidden = mask if how == "hidden" else ~mask
        shown = hidden.new_zeros((), dtype=dtype) if result is None else result
        result = find_op("where")(hidden, -math.inf, shown)
    if result is None:
        return None
    return result.masked_fill((result == -math.inf).all(-1, keepdim=True), math.nan)


class WithAttention(Interpreter):
    """Runs a graph with its attention as calls of attention."""

    def __init__(self, module: GraphModule, found: Sequence[Attention]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False
        self.found = {a.last: a for a in found}
        self.inside = {n for a in found for n in a.nodes}
        self.inside |= {user for n in self.inside for user in n.users if is_dead(user)}

    def forward(self, *args: Any) -> Any:
        """What the graph returns; nothing of the trace is kept."""
        try:
            return self.run(*args)
        finally:
            self.env, self.args_iter = {}, iter(())

    def run_node(self, node: Node) -> Any:
        if node in self.inside:
            return None      # until it is known that it is needed
        attention = self.found.get(node)
        if attention is not None:
            result = attention.run(self.env.__getitem__)
            if result is not None:
                return result
            for inner in reversed(attention.nodes):
                self.env[inner] = super().run_node(inner)
        return super().run_node(node)


def with_attention(module: GraphModule) -> Callable:
    """The graph as a function, in which attention that is written out is one op."""
    found = []
    for node in module.graph.nodes:
        if name_of(node) in PRODUCTS and len(node.args) == 2 and not node.kwargs:
            attention = Attention(node)
            if attention.found(node.args[0]):
                found.append(attention)
    return WithAttention(module, found).forward if found else module.forward
