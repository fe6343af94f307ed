"""The life of `loss.backward()`: what calls leave on the tape, and how the engine walks it back.

Run it (`python docs/life_of_backward.py`): every step prints real objects, and asserts what it claims. The tests run it
too. The tape is C++ (csrc/tape.h); what a derivative *is* comes from Python, once for each op.
"""

from __future__ import annotations

import inspect
from typing import Any

from tour import asked_nests, excerpt, heading, say

import rushlight
from rushlight.op import find_op


def definition_of(name: str) -> Any:
    return find_op(name).overload_list[0].definition


def parents(node: Any) -> list[Any]:
    return [parent for parent, _ in node.next_functions if parent is not None]


def all_nodes(root: Any) -> list[Any]:
    """Every node below `root`, each once, parents after children."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop(0)
        if node not in found:
            found.append(node)
            waiting += parents(node)
    return found


def refusal(action: Any) -> str:
    """What a RuntimeError says, which must come."""
    try:
        action()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("expected a refusal")


def show_recording() -> None:
    heading(1, "Recording",
            "Three calls. Because `x` requires a gradient, each leaves a node: a C++ object that points to the nodes",
            "of its inputs and keeps what its derivative will read, and nothing else.")
    x = rushlight.randn(3, 4, requires_grad=True)
    w = rushlight.randn(4, requires_grad=True)
    product = x * w
    powers = product.exp()
    loss = powers.sum()
    for node in all_nodes(loss.grad_fn):
        saved = [name for name in dir(node) if name.startswith("_saved_") and name != "_saved_values"]
        print(f"    {node.name():15} goes to {[parent.name() for parent in parents(node)]}, keeps {saved}")
    assert isinstance(loss.grad_fn, rushlight.autograd.graph.Node) and not hasattr(loss.grad_fn, "__dict__")
    say("mul keeps both inputs themselves, exp its own result, sum no elements at all: a shape is enough for it:")
    assert product.grad_fn._saved_self is x and product.grad_fn._saved_other is w
    assert powers.grad_fn._saved_result is powers
    print(f"    {loss.grad_fn._saved_self_sym_sizes}")
    with rushlight.no_grad():
        assert (x * w).grad_fn is None
    say("Under no_grad, or where no input requires a gradient, nothing is recorded.")


def show_rules() -> None:
    heading(2, "Where a derivative comes from", "Pointwise: it is derived from the expression. mul says only this:")
    product = definition_of("mul")
    assert type(product).vjp is None
    print(excerpt(inspect.getsource(type(product).expr)))
    say("Asked for the gradients of both inputs (mask 0b11), its kind makes one more pointwise op. Its loop body:")
    gradient, passed, *_ = product.derived(0b11)
    x = rushlight.ones(3, 4)
    with asked_nests() as asked:
        gradient.definition.plan((x, x, x))
    print(excerpt(str(asked[0]), "x3[.] =", lines=2))
    assert len(passed) == 2 and type(gradient.definition).__mro__[1].__name__ == "Pointwise"

    print("\nGiven: where a better one is known, it is written in the same scalar language. tanh reads its result:")
    print(excerpt(inspect.getsource(type(definition_of("tanh")).vjp)))
    print("\nOther kinds write it with ops on tensors. A sum's gradient is the incoming one, spread out again:")
    print(excerpt(inspect.getsource(type(definition_of("sum")).vjp)))
    say("A composite op has no rule at all: the ops in its body are recorded, one by one.")


def show_walk() -> None:
    heading(3, "The engine's walk",
            "The engine counts how many gradients each node will get, then runs nodes that have all of theirs, the",
            "youngest call first. It is a loop, not a recursion, so a graph may be a million nodes deep.")
    x = rushlight.tensor([0.5, -1.0], requires_grad=True)
    a = x * 3
    b = a.exp() + a.sin()                      # `a` is used twice: its node must wait for two gradients
    loss = b.sum()
    order: list[Any] = []
    for node in all_nodes(loss.grad_fn):
        node.register_hook(lambda inputs, outputs, node=node: order.append(node))
    loss.backward()
    print(f"    {' -> '.join(node.name() for node in order)}")
    ages = [node._sequence_nr() for node in order if not node.name().endswith("AccumulateGrad")]
    assert ages == sorted(ages, reverse=True) and len(order) == len(set(order)) == 6
    expected = 3 * ((3 * x).exp() + (3 * x).cos())
    assert rushlight.allclose(x.grad, expected)
    print(f"    x.grad = {x.grad.tolist()}, as by hand")


def show_accumulation() -> None:
    heading(4, "Accumulation",
            "A leaf's node, AccumulateGrad, holds the leaf. The first gradient becomes `.grad`; the next is added to",
            "it in place, so that the tensor an optimizer knows stays the same.")
    x = rushlight.ones(3, requires_grad=True)
    y = x * 2
    (end,) = parents(y.grad_fn)
    assert type(end).__name__ == "AccumulateGrad" and end.variable is x
    y.sum().backward()
    first = x.grad
    print(f"    once:  {first.tolist()}")
    (x * 2).sum().backward()
    print(f"    twice: {x.grad.tolist()}")
    assert x.grad is first and first.tolist() == [4.0] * 3
    print("What nodes kept was freed on the way. Going back again needs retain_graph=True:")
    print(excerpt(refusal(lambda: y.sum().backward()).replace(". ", ".\n"), lines=1))


def show_hooks() -> None:
    heading(5, "Hooks",
            "A hook on a tensor sees its gradient when it is complete, before the node runs, and may replace it.")
    x = rushlight.ones(2, requires_grad=True)
    middle = x * 3
    middle.retain_grad()
    middle.register_hook(lambda gradient: gradient * 10)
    x.register_post_accumulate_grad_hook(lambda leaf: print(f"    after accumulation: x.grad = {leaf.grad.tolist()}"))
    middle.sum().backward()
    print(f"    the retained gradient of the middle is what the hook returned: {middle.grad.tolist()}")
    assert middle.grad.tolist() == [10.0, 10.0] and x.grad.tolist() == [30.0, 30.0]


def show_writes() -> None:
    heading(6, "Views and versions",
            "A view shares its base's memory and its version, which every write raises by one. A write to a view is a",
            "write to the base: the base's node becomes CopySlices, and the view gets a new one.")
    x = rushlight.ones(4, requires_grad=True)
    base = x * 1
    view = base[:2]
    for moment in ("before", "after"):
        if moment == "after":
            view.mul_(3)
        nodes = f"base {base.grad_fn.name()}, view {view.grad_fn.name()}"
        print(f"    {moment:7} {nodes}, versions {base._version} and {view._version}")
    assert base._version == view._version == 1 and type(base.grad_fn).__name__ == "CopySlices"
    base.sum().backward()
    print(f"    x.grad = {x.grad.tolist()}: three where the view was")
    assert x.grad.tolist() == [3.0, 3.0, 1.0, 1.0]

    say("A node remembers the version of what it keeps. If that changed, the gradient would be wrong: it is refused.")
    kept = (x * 2).exp()
    square = kept * kept
    kept.add_(1)
    message = refusal(lambda: square.sum().backward())
    print(excerpt(message.replace(": `", ":\n`").replace("; ", ";\n"), lines=3))
    assert "version 1; expected version 0" in message


def show_second_order() -> None:
    heading(7, "Double backward",
            "With create_graph=True the gradient's own ops are recorded. The derived op of step 2 is an op like any",
            "other, so it has a derivative too, derived in the same way: any order, nothing more to write.")
    x = rushlight.tensor([0.5], dtype=rushlight.float64, requires_grad=True)
    (first,) = rushlight.autograd.grad(x.tanh().sum(), x, create_graph=True)
    (second,) = rushlight.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = rushlight.autograd.grad(second.sum(), x)
    print(f"    tanh':   {first.item():+.6f}  recorded as {first.grad_fn.name()}")
    print(f"    tanh'':  {second.item():+.6f}  recorded as {second.grad_fn.name()}")
    print(f"    tanh''': {third.item():+.6f}")
    t = x.tanh().item()
    slope = 1 - t * t
    assert abs(first.item() - slope) < 1e-12 and abs(second.item() + 2 * t * slope) < 1e-12
    assert abs(third.item() - (6 * t * t - 2) * slope) < 1e-12


def main() -> None:
    show_recording()
    show_rules()
    show_walk()
    show_accumulation()
    show_hooks()
    show_writes()
    show_second_order()
    print("\nRead on: csrc/tape.h, csrc/engine.cpp, rushlight/loops/derive.py. The whole backward as one graph:"
          " docs/life_of_compile.py.")


if __name__ == "__main__":
    main()
