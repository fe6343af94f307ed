"""Exercises of the chapter on extensions: calling conventions, schemas, custom ops."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def fake_of(answer: ModuleType, shape: Any, kernel: Any) -> Any:
    """Shape and dtype that a fake kernel gives, beside what the true one gives."""
    x = torch.ones(shape)
    fake = answer.pooled_fake(x.to("meta"), kernel)
    return list(fake.shape), str(fake.dtype).rpartition(".")[2], fake.device.type


def op_gradient(answer: ModuleType, values: Any) -> Any:
    """The gradient that a derivative registered for an op gives."""
    return answer.backward(torch.tensor([2.0] * len(values)), torch.tensor(values))


CHAPTER = chapter(
    "extensions",
    "Extensions: ops of your own",
    "扩展：自己的算子",
    Exercise(
        title="Read a schema",
        title_zh="读懂算子声明",
        text="""A schema such as "scale(Tensor x, float by=1.0, *, bool fast=False) -> Tensor" declares an op. Return
        (name, arguments), each argument a tuple (type, name, default as text or None, whether it must be given by
        keyword). No type holds a comma or a space.""",
        solution='''
        def parse(schema):
            """The name and the arguments of a schema."""
            name, _, rest = schema.partition("(")
            inside = rest.rpartition(") ->")[0]
            arguments = []
            by_keyword = False
            for part in inside.split(","):
                part = part.strip()
                if part == "*":
                    by_keyword = True
                elif part:
                    kind, _, named = part.partition(" ")
                    called, sign, default = named.partition("=")
                    arguments.append((kind, called, default if sign else None, by_keyword))
            return name, arguments
        ''',
        hint="Cut at the first '(' and at the last ') ->', split at commas; a lone '*' changes what follows.",
        cases=lambda: [
            ("f() -> ()",),
            ("f(Tensor x) -> Tensor",),
            ("add(Tensor a, Tensor b, *, float by=1) -> Tensor",),
            ("g(*, bool b=False, int? n=None) -> int",),
            ("h(Tensor(a!) x, int[2] k, str mode='sum') -> Tensor(a!)",),
        ],
    ),
    Exercise(
        title="A fake kernel",
        title_zh="假核",
        text="""An op pools the last dim of a tensor in windows of `kernel` elements without overlap; a rest that
        fills no window is dropped; the result is float64 whatever comes in. Write `pooled_fake(x, kernel)`, which
        computes nothing: it returns an empty tensor of the right shape and dtype on the device of x.""",
        solution='''
        import rushlight as torch


        def pooled_fake(x, kernel):
            """What the op returns, without its values."""
            return x.new_empty((*x.shape[:-1], x.shape[-1] // kernel), dtype=torch.float64)
        ''',
        hint="`x.new_empty(shape, dtype=...)` stays on the device of x.",
        cases=lambda: [((4,), 2), ((5,), 2), ((2, 9), 3), ((0, 7), 4), ((3, 2), 5)],
        probe=fake_of,
        asks="[shape, dtype, device] for a meta tensor of shape {0} and kernel {1}",
    ),
    Exercise(
        title="The derivative of an op",
        title_zh="算子的导数",
        text="""An op of yours computes x * sigmoid(x). Write `backward(g, x)` for it: the gradient for x when g
        arrives, from first principles and without autograd.""",
        solution='''
        import rushlight as torch


        def backward(g, x):
            """g times the derivative of x * sigmoid(x)."""
            s = torch.sigmoid(x)
            return g * (s + x * s * (1 - s))
        ''',
        hint="The product rule; the derivative of the sigmoid s is s (1 - s).",
        cases=lambda: [([0.0],), ([1.0],), ([-2.0, 0.5, 4.0],)],
        probe=op_gradient,
        asks="the gradients at x = {0}, with g = 2",
    ),
    Exercise(
        title="Field offsets of a C struct",
        title_zh="C 结构体的偏移",
        text="""A back end passes arguments in a C struct. Each field is given by its size in bytes, which is also its
        alignment: it begins at the next multiple of its size. The struct's own size is rounded up to a multiple of
        its largest field. Return (offsets, size); no field gives ([], 0).""",
        solution='''
        def layout(sizes):
            """Offsets of all fields, and the size of the struct."""
            offsets = []
            end = 0
            for size in sizes:
                end += -end % size
                offsets.append(end)
                end += size
            return offsets, end + -end % max(sizes, default=1)
        ''',
        hint="`-end % size` is how much is missing to the next multiple.",
        cases=lambda: [([],), ([4],), ([1, 4],), ([4, 1],), ([1, 8, 2, 4],), ([8, 1, 1, 2],), ([2, 1, 4, 1],)],
    ),
)
