"""Exercises of the chapter on shipping: transfer learning, batches, formats, weights in C."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def frozen(answer: ModuleType, layers: Any, kept: Any) -> Any:
    """Which parameters of a small network train, and how many numbers that is."""
    model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(layers)])
    count = answer.freeze(model, kept)
    return count, [parameter.requires_grad for parameter in model.parameters()]


CHAPTER = chapter(
    "shipping",
    "Shipping a model",
    "交付模型",
    Exercise(
        title="Freeze a backbone",
        title_zh="冻结主干",
        text="""Given a `torch.nn.Sequential` and a number of layers, let only the parameters of the last `kept`
        layers train: set `requires_grad` of every parameter accordingly. Return how many numbers are trained
        then.""",
        solution='''
        def freeze(model, kept):
            """Only the last layers train; how many numbers that is."""
            trained = 0
            for number, layer in enumerate(model):
                for parameter in layer.parameters():
                    parameter.requires_grad_(number >= len(model) - kept)
                    trained += parameter.numel() * parameter.requires_grad
            return trained
        ''',
        hint="Layer `number` trains when it is one of the last: number >= len(model) - kept.",
        cases=lambda: [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2), (2, 5)],
        probe=frozen,
        asks="[how many, requires_grad of all parameters] with {0} layers of 2 x 2, {1} kept",
    ),
    Exercise(
        title="Batch what arrives",
        title_zh="请求成批",
        text="""Requests arrive at ascending times (whole ms). A batch opens with a request that finds none open, and
        is sent as soon as it holds `most` requests, or at `wait` ms after it opened: a request at exactly that time
        still belongs to it. Return the list of (time sent, number of requests).""",
        solution='''
        def batches(arrivals, most, wait):
            """(time, size) of every batch that is sent."""
            sent = []
            opened, size = None, 0
            for time in arrivals:
                if size > 0 and time > opened + wait:
                    sent.append((opened + wait, size))
                    size = 0
                if size == 0:
                    opened = time
                size += 1
                if size == most:
                    sent.append((time, size))
                    size = 0
            if size > 0:
                sent.append((opened + wait, size))
            return sent
        ''',
        hint="Before a request joins, ask whether the open batch has left by then; at the end one may still wait.",
        cases=lambda: [
            ([], 2, 5),
            ([3], 2, 5),
            ([3], 1, 5),
            ([3, 4], 2, 5),
            ([3, 8], 3, 5),
            ([3, 9], 3, 5),
            ([0, 1, 2, 3, 4], 2, 10),
            ([0, 4, 5, 6, 20, 21], 3, 5),
            ([1, 2, 3, 9, 12], 4, 3),
        ],
    ),
    Exercise(
        title="Weights as a C header",
        title_zh="把权重写成 C 头文件",
        text="""Write the text of a C array: `header("w", [[1.0, 2.5]])` is "static const float w[1][2] = {{1.0f,
        2.5f}};". Nested lists of any depth become nested braces, every dim is written in brackets, and numbers are
        written as Python's repr followed by f. No list is empty.""",
        solution='''
        def header(name, values):
            """The declaration of a constant array."""

            def text(value):
                if isinstance(value, list):
                    return "{" + ", ".join(text(part) for part in value) + "}"
                return f"{value!r}f"

            dims = ""
            inner = values
            while isinstance(inner, list):
                dims += f"[{len(inner)}]"
                inner = inner[0]
            return f"static const float {name}{dims} = {text(values)};"
        ''',
        hint="Go down the first elements for the dims; write the values with a recursive function.",
        cases=lambda: [
            ("w", [1.0]),
            ("b", [0.5, -2.0]),
            ("w", [[1.0, 2.5]]),
            ("k", [[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [-6.25]]]),
        ],
    ),
    Exercise(
        title="Fold a batch norm",
        title_zh="折叠批归一化",
        text="""Before shipping, a batch norm that follows a linear layer is folded into it. Given weight (out, in)
        and bias of the layer, and mean, var, gamma, beta and eps of the norm, return the weight and the bias of one
        linear layer that computes the same.""",
        solution='''
        def fold(weight, bias, mean, var, gamma, beta, eps):
            """(weight, bias) of the layer with its norm."""
            scale = gamma / (var + eps).sqrt()
            return weight * scale.reshape(-1, 1), (bias - mean) * scale + beta
        ''',
        hint="""gamma * (W x + b - mean) / sqrt(var + eps) + beta is linear in x: collect what multiplies x, and the
        rest.""",
        cases=lambda: [
            (torch.tensor([[2.0]]), *map(torch.tensor, ([1.0], [0.5], [3.0], [2.0], [0.25])), 1.0),
            (
                torch.tensor([[1.0, -2.0], [0.5, 4.0]]),
                *map(torch.tensor, ([1.0, 2.0], [0.5, -1.0], [3.5, 0.5], [2.0, 1.5], [0.0, 1.0])),
                0.5,
            ),
            (torch.tensor([[1.0, 2.0, 3.0]]), *map(torch.tensor, ([0.0], [0.0], [1.0], [1.0], [0.0])), 0.0),
        ],
        asks="the layer {0}, {1} with the norm {2}, {3}, {4}, {5}, eps {6}",
    ),
)
