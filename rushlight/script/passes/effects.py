"""What nodes do besides computing their results."""

from __future__ import annotations

from ..constants import constant_of
from ..ir import Node

SIDE_EFFECTS = frozenset((
    "prim::Print", "prim::RaiseException", "prim::SetAttr", "prim::Enter", "prim::Exit", "prim::CallFunction",
    "prim::CallMethod", "prim::PythonOp", "prim::IgnoredPythonOp", "prim::AddStatValue", "prim::TimePoint",
    "prim::BailOut", "prim::BailoutTemplate", "prim::rpc_async", "prim::rpc_sync", "prim::rpc_remote", "aten::warn",
    "aten::save", "aten::backward", "aten::manual_seed", "aten::set_grad_enabled", "aten::_set_grad_enabled",
))
_RANDOM = frozenset(f"aten::{name}" for name in (
    "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "_fused_dropout", "_standard_gamma",
    "bernoulli", "multinomial", "native_dropout", "normal", "poisson", "binomial", "rrelu", "rrelu_with_noise", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "_sample_dirichlet", "empty",
    "empty_like", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu", "seed", "initial_seed",
    "is_grad_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled"))
_TRAINED = {"aten::dropout": 2, "aten::feature_dropout": 2, "aten::alpha_dropout": 2, "aten::feature_alpha_dropout": 2}
PURE = frozenset(("prim::unchecked_cast", "prim::NumToTensor", "prim::rangelist", "prim::min", "prim::max", "prim::abs",
                  "prim::StringIndex", "prim::EnumName", "prim::itemsize", "prim::nbytes", "prim::unchecked_list_cast",
                  "prim::AutogradAnyNonZero", "prim::tolist", "prim::shape", "prim::layout"))


def has_side_effects(node: Node) -> bool:
    """Whether a node, or one in its blocks, does something that is seen outside of the graph, apart from writes."""
    if node.kind_ in SIDE_EFFECTS:
        return True
    return any(has_side_effects(inner) for block in node.blocks_ for inner in block.nodes())


def is_random(node: Node) -> bool:
    """Whether a node may answer differently each time; dropout that is off does not."""
    if node.kind_ not in _RANDOM:
        return False
    at = _TRAINED.get(node.kind_)
    return at is None or len(node.inputs_) <= at or constant_of(node.inputs_[at], None) is not False
