"""What a training step computes: blocks in order, each with its arithmetic, parameters and activations.

Enters: the shape of a transformer, or a module and an input to run it on. Leaves: a `Model`. All numbers are for one
sample (a sequence, a picture), so that batches scale them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...nn import Module


@dataclass(frozen=True)
class Block:
    """A piece that a pipeline does not cut."""

    name: str
    flops: float               # forward, one sample; the backward pass does twice that
    parameters: float          # numbers
    kept: float                # bytes kept for the backward pass, one sample
    passed: float              # bytes of the result that the next block reads, one sample
    exchanges: int = 0         # all-reduces of `passed` bytes each way that tensor parallelism asks for
    attended: float = 0.0      # bytes of keys and values that context parallelism passes round, one sample


@dataclass(frozen=True)
class Model:
    """Blocks in order, and how numbers are kept."""

    name: str
    blocks: tuple[Block, ...]
    heads: int = 1
    parameter_bytes: int = 4   # of the copy that is computed with, and of gradients
    state_bytes: int = 8       # of an optimizer, for a parameter, with the full-precision copy if there is one

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError(f"model {self.name!r}: expected at least one block")

    @property
    def parameters(self) -> float:
        return sum(block.parameters for block in self.blocks)

    @property
    def flops(self) -> float:
        """Forward and backward, one sample."""
        return 3 * sum(block.flops for block in self.blocks)


def transformer(
    layers: int, width: int, heads: int, length: int, vocabulary: int, *, hidden: int | None = None,
    element: int = 2, parameter_bytes: int = 2, state_bytes: int = 12, name: str = "",
) -> Model:
    """A decoder as GPT has it: embedding, `layers` blocks of attention and two linear layers, and the projection onto
    the vocabulary. `element`: bytes of an activation; state: two moments and a full-precision copy."""
    for what, value in dict(layers=layers, width=width, heads=heads, length=length, vocabulary=vocabulary).items():
        if value < 1:
            raise ValueError(f"transformer: {what} must be at least 1, got {value}")
    if width % heads:
        raise ValueError(f"transformer: width {width} is no multiple of heads {heads}")
    hidden = hidden or 4 * width
    passed = float(element * length * width)
    layer = Block(
        "layer",
        flops=2.0 * length * (4 * width * width + 2 * width * hidden) + 2.0 * length * length * width,
        parameters=4.0 * width * width + 2.0 * width * hidden + 9.0 * width + hidden,
        # the inputs of products, norms and the activation function; attention keeps its result, not its scores
        kept=passed * (8 + 2 * hidden / width),
        passed=passed,
        exchanges=2,
        attended=2 * passed,
    )
    first = Block("embedding", 0.0, float(vocabulary * width + length * width), passed, passed, exchanges=1)
    last = Block("head", 2.0 * length * width * vocabulary, float(vocabulary * width), 4.0 * length * vocabulary, 0.0)
    label = name or f"transformer {layers}x{width}"
    return Model(label, (first, *[layer] * layers, last), heads, parameter_bytes, state_bytes)


def of_module(model: Module, *inputs: Any, name: str = "", state_bytes: int = 8) -> Model:
    """The children of a module as blocks, counted while it runs once on `inputs` (a batch of any size).

    A child that is a list or a sequence counts as its own children do. Parameters that no child holds are the last
    block's."""
    from ...autograd import no_grad
    from ...utils.flop_counter import FlopCounterMode

    counts: dict[str, tuple[float, float, float]] = {}
    batch = int(inputs[0].shape[0])
    hooks = []
    for child_name, child in pieces(model):
        counter = FlopCounterMode(display=False)

        def before(module: Any, given: Any, counter: Any = counter) -> None:
            counter.__enter__()

        def after(module: Any, given: Any, result: Any, counter: Any = counter, label: str = child_name) -> None:
            counter.__exit__(None, None, None)
            flops, read, written = counts.get(label, (0.0, 0.0, 0.0))
            counts[label] = (flops + counter.get_total_flops(), read + size_of(given), written + size_of(result))

        hooks += [child.register_forward_pre_hook(before), child.register_forward_hook(after)]
    try:
        with no_grad():
            model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    blocks = []
    for child_name, child in pieces(model):
        flops, read, written = counts.get(child_name, (0.0, 0.0, 0.0))
        own = float(sum(p.numel() for p in child.parameters()))
        blocks.append(Block(child_name, flops / batch, own, (read + written) / batch, written / batch))
    whole = float(sum(p.numel() for p in model.parameters()))
    if not blocks:
        raise ValueError(f"simulator: {type(model).__name__} has no children to be blocks")
    rest = whole - sum(block.parameters for block in blocks)
    if rest > 0:
        last = blocks.pop()
        blocks.append(Block(last.name, last.flops, last.parameters + rest, last.kept, last.passed))
    width = max((p.element_size() for p in model.parameters()), default=4)
    return Model(name or type(model).__name__, tuple(blocks), 1, width, state_bytes)


def pieces(model: Module, prefix: str = "") -> list[tuple[str, Module]]:
    """The modules that become blocks: children, and in place of a list or a sequence what is in it."""
    from ...nn import ModuleList, Sequential

    found: list[tuple[str, Any]] = []
    for name, child in model.named_children():
        inner = pieces(child, f"{prefix}{name}.") if isinstance(child, (ModuleList, Sequential)) else []
        found += inner or [(prefix + name, child)]
    return found


def size_of(value: Any) -> float:
    """Bytes of the tensors in a value."""
    if isinstance(value, (tuple, list)):
        return sum(size_of(item) for item in value)
    if isinstance(value, dict):
        return sum(size_of(item) for item in value.values())
    return float(value.numel() * value.element_size()) if hasattr(value, "element_size") else 0.0
