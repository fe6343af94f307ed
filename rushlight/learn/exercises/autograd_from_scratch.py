"""Exercises of the chapter on autograd: the chain rule, vector-Jacobian products, order, hooks."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def doubled(answer: ModuleType, values: Any) -> Any:
    """The gradients of a program in which the answer put a hook."""
    x = torch.tensor(values, requires_grad=True)
    middle = x * 3
    answer.limit(middle, 2.0)
    (middle * middle).sum().backward()
    return x.grad


CHAPTER = chapter(
    "autograd_from_scratch",
    "Autograd from nothing",
    "从零实现自动求导",
    Exercise(
        title="Dual numbers",
        title_zh="对偶数",
        text="""A dual number is a pair (value, slope). Write `add`, `mul` and `divide` of two dual numbers, which
        carry the slope along by the rules of calculus.""",
        solution='''
        def add(a, b):
            """The sum, with its slope."""
            return a[0] + b[0], a[1] + b[1]


        def mul(a, b):
            """The product, with its slope."""
            return a[0] * b[0], a[1] * b[0] + a[0] * b[1]


        def divide(a, b):
            """The quotient, with its slope."""
            return a[0] / b[0], (a[1] * b[0] - a[0] * b[1]) / (b[0] * b[0])
        ''',
        hint="Product rule: u'v + uv'. Quotient rule: (u'v - uv') / v².",
        cases=lambda: [
            ((2.0, 1.0), (3.0, 0.0)),
            ((2.0, 0.0), (4.0, 1.0)),
            ((5.0, -1.0), (0.5, 2.0)),
            ((0.0, 1.0), (2.0, 3.0)),
        ],
        probe=lambda answer, a, b: [answer.add(a, b), answer.mul(a, b), answer.divide(a, b)],
        asks="[the sum, the product, the quotient] of {0} and {1}",
    ),
    Exercise(
        title="An order for going backwards",
        title_zh="反向遍历的次序",
        text="""A graph maps each node to the list of nodes it was computed from (a node without entry is an input).
        Return the nodes that `end` depends on, `end` included, in an order in which every node comes before those it
        was computed from: depth first through the lists in their order, a node noted once all behind it are noted,
        and the notes reversed.""",
        solution='''
        def order(graph, end):
            """Nodes from `end` to the inputs, users first."""
            noted = []

            def visit(node):
                if node in noted:
                    return
                for source in graph.get(node, []):
                    visit(source)
                noted.append(node)

            visit(end)
            return noted[::-1]
        ''',
        hint="Recursion: visit the sources, then note the node. Skip what is noted already.",
        cases=lambda: [
            ({}, "a"),
            ({"b": ["a"]}, "b"),
            ({"c": ["a", "b"]}, "c"),
            ({"b": ["a"], "c": ["a", "b"]}, "c"),
            ({"c": ["b", "a"], "b": ["a"], "z": ["c"]}, "c"),
            ({"d": ["b", "c"], "b": ["a"], "c": ["a"]}, "d"),
            ({"e": ["d", "a"], "d": ["c", "b"], "c": ["b", "b"]}, "e"),
        ],
    ),
    Exercise(
        title="The product with a Jacobian",
        title_zh="向量与雅可比的乘积",
        text="""For y = W x + b with a matrix W, a vector x and a gradient g that arrives for y, return the gradients
        for (W, x, b), as tensors, without autograd.""",
        solution='''
        def linear_backward(g, W, x):
            """Gradients of W, x and b."""
            return g.reshape(-1, 1) * x, W.T @ g, g
        ''',
        hint="Each has the shape of what it belongs to: an outer product, a product with the transpose, and g itself.",
        cases=lambda: [
            (torch.tensor(g), torch.tensor(W), torch.tensor(x))
            for g, W, x in (
                ([1.0], [[2.0]], [3.0]),
                ([1.0, -1.0], [[1.0, 2.0, 0.0], [0.5, 0.0, 3.0]], [1.0, 2.0, 4.0]),
                ([0.5, 2.0], [[3.0], [4.0]], [5.0]),
            )
        ],
        asks="(W, x, b) with g = {0}, W = {1}, x = {2}",
    ),
    Exercise(
        title="A hook that limits",
        title_zh="限幅的钩子",
        text="""Write `limit(tensor, norm)`: register a hook on the tensor that scales its gradient down to this
        Euclidean norm when the gradient's norm is larger, and leaves it as it is otherwise. Return the handle of the
        hook.""",
        solution='''
        def limit(tensor, norm):
            """Limits the norm of the gradient that passes through a tensor."""

            def scale(g):
                length = g.norm()
                return g * (norm / length) if length > norm else g

            return tensor.register_hook(scale)
        ''',
        hint="`tensor.register_hook(function)`: what the function returns replaces the gradient.",
        cases=lambda: [([0.1],), ([1.0],), ([-1.0],), ([0.2, 0.1],), ([1.0, 2.0, -2.0],)],
        probe=lambda answer, values: [doubled(answer, values), removed(answer, values)],
        asks="[the gradient of x, that with the hook removed] of the sum of (3x)², 3x limited to norm 2, at {0}",
    ),
    Exercise(
        title="A second derivative",
        title_zh="二阶导数",
        text="""Given a function from a vector to a number and a vector v, return the Hessian of the function at x
        times v, with two calls of `torch.autograd.grad` and no matrix. Where the first derivative is constant, return
        zeros.""",
        solution='''
        import rushlight as torch


        def hessian_times(f, x, v):
            """H(x) @ v."""
            x = x.detach().requires_grad_()
            (first,) = torch.autograd.grad(f(x), x, create_graph=True)
            if not first.requires_grad:
                return torch.zeros_like(x)
            (second,) = torch.autograd.grad((first * v).sum(), x)
            return second
        ''',
        hint="The derivative of (gradient · v) is H v; the first `grad` needs `create_graph=True`.",
        cases=lambda: [
            ("(x ** 2).sum()", [1.0], [2.0]),
            ("x.sum()", [1.0, 2.0], [3.0, 4.0]),
            ("x.prod()", [2.0, 3.0], [1.0, 0.5]),
            ("(x[0] * x[1] ** 2).sin()", [0.5, 1.0], [1.0, -1.0]),
        ],
        probe=lambda answer, text, x, v: answer.hessian_times(
            eval(f"lambda x: {text}", {}), torch.tensor(x), torch.tensor(v)
        ),
        asks="the function {0} at {1} with v = {2}",
    ),
)


def removed(answer: ModuleType, values: Any) -> Any:
    """The same gradient after the hook was removed again."""
    x = torch.tensor(values, requires_grad=True)
    middle = x * 3
    answer.limit(middle, 2.0).remove()
    (middle * middle).sum().backward()
    return x.grad
