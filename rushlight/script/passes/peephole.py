"""Small rewrites: nodes that are known to give what one of their inputs, or a constant, is.

Enters: a graph. Leaves: whether something changed. A result that may share memory where there was none before (`x + 0`
becoming `x`) is only replaced where nobody writes either and not both leave the graph. Questions about shapes are
answered where types say them, unless `with_shapes` is False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import types as t
from ..constants import DTYPE_NUMBERS, constant_of, insert_constant
from ..ir import Block, Graph, Node, Value
from .aliases import Aliases
from .list_peephole import fold_containers

_NO = object()
_NEUTRAL = {"aten::add": 0, "aten::sub": 0, "aten::mul": 1, "aten::floordiv": 1, "aten::div": 1}
_KNOWN_DEVICES = {"prim::is_cuda": "cuda", "prim::is_cpu": "cpu", "prim::is_xla": "xla", "prim::is_meta": "meta",
                  "prim::is_mps": "mps", "prim::is_xpu": "xpu"}


def peephole(graph: Graph, *, with_shapes: bool = True, is_exact: bool = False) -> bool:
    """All of it. `is_exact` leaves sums with 0 alone where the tensor may be one of booleans."""
    changed = _Peephole(graph, with_shapes, is_exact).block(graph.block)
    return fold_containers(graph) or changed


class _Peephole:
    def __init__(self, graph: Graph, with_shapes: bool, is_exact: bool) -> None:
        self.graph, self.with_shapes, self.is_exact = graph, with_shapes, is_exact
        self._aliases: Aliases | None = None

    @property
    def aliases(self) -> Aliases:
        if self._aliases is None:
            self._aliases = Aliases(self.graph)
        return self._aliases

    def block(self, block: Block) -> bool:
        changed = False
        for node in list(block.nodes()):
            for inner in node.blocks_:
                changed |= self.block(inner)
            if node.block is block:
                changed |= self.node(node)
        return changed

    def node(self, node: Node) -> bool:
        if len(node.outputs_) != 1:
            return self.choice(node) if node.kind_ == "prim::If" else False
        for rule in _RULES.get(node.kind_, ()):
            found = rule(self, node)
            if found is not _NO:
                return self.stand_for(node, found)
        return False

    def stand_for(self, node: Node, found: Any) -> bool:
        """Put a value, or a constant, in the place of a node's result."""
        output = node.outputs_[0]
        if not output.uses_:
            return False
        if not isinstance(found, Value):
            with self.graph.inserting(node), self.graph.at_range(node.range):
                found = insert_constant(self.graph, found)
        output.replace_all_uses_with(found)
        return True

    # --- choices
    def choice(self, node: Node) -> bool:
        """`True if c else False` is c."""
        changed = False
        for at, output in enumerate(node.outputs_):
            first, second = (constant_of(block.return_node.inputs_[at], None) for block in node.blocks_)
            if first is True and second is False and isinstance(output.type_, t.BoolType) and output.uses_:
                output.replace_all_uses_with(node.inputs_[0])
                changed = True
        return changed

    def only_choice(self, node: Node) -> Any:
        first, second = (constant_of(block.return_node.inputs_[0], None) for block in node.blocks_)
        is_itself = first is True and second is False and isinstance(node.outputs_[0].type_, t.BoolType)
        return node.inputs_[0] if is_itself else _NO

    # --- numbers and None
    def neutral(self, node: Node) -> Any:
        """`i + 0`, `i * 1`, `i // 1` of integers; of tensors where that changes neither type nor whose memory it is."""
        held = constant_of(node.inputs_[1], None) if len(node.inputs_) > 1 else None
        if isinstance(held, bool) or not isinstance(held, (int, float)) or held != _NEUTRAL[node.kind_]:
            return _NO
        first = node.inputs_[0]
        if isinstance(first.type_, t.IntType) and isinstance(node.outputs_[0].type_, t.IntType):
            return first if isinstance(held, int) else _NO
        return self.neutral_of_tensor(node, held)

    def neutral_of_tensor(self, node: Node, held: float) -> Any:
        first, output = node.inputs_[0], node.outputs_[0]
        if not isinstance(first.type_, t.TensorType) or node.kind_ == "aten::floordiv":
            return _NO
        dtype = first.type_.dtype
        if dtype is None:
            is_safe = isinstance(held, int) and node.kind_ != "aten::div" and not self.is_exact
        else:
            is_whole = isinstance(held, int) and node.kind_ != "aten::div"
            is_safe = dtype.is_floating_point or dtype.is_complex or (is_whole and str(dtype) != "torch.bool")
        if not is_safe or len(node.inputs_) > (3 if node.kind_ in ("aten::add", "aten::sub") else 2):
            return _NO
        return first if self.aliases.may_exchange([first], [output]) else _NO

    def is_none(self, node: Node) -> Any:
        """`x is None` where types decide."""
        first, second = node.inputs_
        asks = node.kind_ == "aten::__is__"
        for value, other in ((first, second), (second, first)):
            if value.must_be_none() and not other.must_be_none() and not t.NoneType().is_subtype_of(other.type_):
                return not asks
        return _NO

    def unwrap(self, node: Node) -> Any:
        value = node.inputs_[0]
        return value if not t.NoneType().is_subtype_of(value.type_) else _NO

    def cast(self, node: Node) -> Any:
        value = node.inputs_[0]
        return value if value.type_.is_subtype_of(node.outputs_[0].type_) else _NO

    def number(self, node: Node) -> Any:
        """A number through a tensor and back; an int as an int."""
        value, wanted = node.inputs_[0], node.outputs_[0].type_
        if node.kind_ == "aten::Int" and isinstance(value.type_, t.IntType):
            return value
        made = value.node_
        if made.kind_ == "prim::NumToTensor" and made.inputs_[0].type_ == wanted:
            return made.inputs_[0]
        return _NO

    # --- tensors
    def transposed_twice(self, node: Node) -> Any:
        inner = node.inputs_[0].node_
        return inner.inputs_[0] if inner.kind_ == "aten::t" else _NO

    def same_type(self, node: Node) -> Any:
        """`x.type_as(y)` of the same dtype and device."""
        mine, theirs = (value.type_ for value in node.inputs_[:2])
        known = isinstance(mine, t.TensorType) and isinstance(theirs, t.TensorType) and mine.dtype is not None and (
            mine.device_ is not None)
        return node.inputs_[0] if known and (mine.dtype, mine.device_) == (theirs.dtype, theirs.device_) else _NO

    def shape(self, node: Node) -> Any:
        """Sizes, dtypes and devices that the type says."""
        type = node.inputs_[0].type_
        if not self.with_shapes or not isinstance(type, t.TensorType):
            return _NO
        ask = _SHAPES.get(node.kind_)
        found = ask(type, node) if ask is not None else _device_answer(type, node)
        return found if found is not None else _NO


def _size(type: t.TensorType, node: Node) -> Any:
    if len(node.inputs_) == 1:
        return type.sizes()
    at = constant_of(node.inputs_[1], None)
    if type.sizes_ is None or not isinstance(at, int) or not -len(type.sizes_) <= at < len(type.sizes_):
        return None
    return type.sizes_[at]


_CONVOLVED = {"aten::conv1d": 3, "aten::conv2d": 4, "aten::conv3d": 5}       # in batches, as layers take them


def _rank(type: t.TensorType, node: Node) -> Any:
    found = type.dim()
    return found if found is not None else _CONVOLVED.get(node.inputs_[0].node_.kind_)


def _device_answer(type: t.TensorType, node: Node) -> Any:
    return None if type.device_ is None else type.device_.type == _KNOWN_DEVICES[node.kind_]


_SHAPES: dict[str, Callable[[t.TensorType, Node], Any]] = {
    "aten::size": _size, "aten::dim": _rank,
    "prim::dtype": lambda type, node: None if type.dtype is None else DTYPE_NUMBERS[type.dtype],
    "prim::device": lambda type, node: type.device_,
    "aten::is_floating_point": lambda type, node: None if type.dtype is None else bool(type.dtype.is_floating_point),
    "aten::is_complex": lambda type, node: None if type.dtype is None else bool(type.dtype.is_complex),
}
_RULES: dict[str, tuple[Callable[[_Peephole, Node], Any], ...]] = {
    **dict.fromkeys(_NEUTRAL, (_Peephole.neutral,)), **dict.fromkeys(("aten::__is__", "aten::__isnot__"),
                                                                      (_Peephole.is_none,)),
    **dict.fromkeys(("aten::_unwrap_optional", "prim::unchecked_unwrap_optional"), (_Peephole.unwrap,)),
    "prim::unchecked_cast": (_Peephole.cast,), "prim::If": (_Peephole.only_choice,),
    **dict.fromkeys(("aten::Int", "aten::Float", "aten::IntImplicit", "aten::FloatImplicit", "aten::ScalarImplicit",
                     "aten::item"), (_Peephole.number,)),
    "aten::t": (_Peephole.transposed_twice,), "aten::type_as": (_Peephole.same_type,),
    **dict.fromkeys((*_SHAPES, *_KNOWN_DEVICES), (_Peephole.shape,)),
}
