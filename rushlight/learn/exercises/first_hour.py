"""Exercises of the chapter on the first hour: tensors, gradients, a training loop, a bug."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def trained(answer: ModuleType, steps: Any, rate: Any) -> Any:
    """Weights of a linear layer after some steps on fixed data."""
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.5]]))
        model.bias.zero_()
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    losses = answer.train(model, x, torch.tensor([[1.0], [2.0], [3.0]]), steps, rate)
    return losses, model.weight.detach(), model.bias.detach()


CHAPTER = chapter(
    "first_hour",
    "The first hour",
    "第一个小时",
    Exercise(
        title="Standardise columns",
        title_zh="按列标准化",
        text="""Given a tensor of shape (rows, columns), subtract from each column its mean and divide it by its
        standard deviation over the rows (dividing by the number of rows, not one less). A column that is constant
        becomes zeros, not NaN.""",
        solution='''
        import rushlight as torch


        def standardise(x):
            """Columns of mean 0 and deviation 1; constant ones become 0."""
            centred = x - x.mean(0)
            deviation = centred.square().mean(0).sqrt()
            return centred / torch.where(deviation == 0, 1.0, deviation)
        ''',
        hint="A constant column is 0 once its mean is gone: divide it by 1.",
        cases=lambda: [
            (torch.tensor(rows),)
            for rows in ([[1.0], [3.0]], [[2.0, 0.0], [2.0, 1.0]], [[1.0, 5.0], [2.0, 7.0], [6.0, 0.0]], [[4.0]])
        ],
    ),
    Exercise(
        title="The slope at a point",
        title_zh="一点的斜率",
        text="""Given a function of one tensor and a Python number, return the derivative at that number as a Python
        float, using `backward`. Where the result does not depend on the input at all (it does not require a
        gradient), return 0.0.""",
        solution='''
        import rushlight as torch


        def slope(f, at):
            """The derivative of f at a number."""
            x = torch.tensor(float(at), requires_grad=True)
            y = f(x)
            if not y.requires_grad:
                return 0.0
            y.backward()
            return x.grad.item()
        ''',
        hint="A tensor made with `requires_grad=True` has its derivative in `.grad` after `backward()`.",
        cases=lambda: [
            ("x * x", 3),
            ("x * x", 0),
            ("x.sin() * 2", 0),
            ("x.exp()", 1),
            ("torch.tensor(5.0)", 2),
            ("x ** 3 - x", -2),
        ],
        probe=lambda answer, text, at: answer.slope(eval(f"lambda x: {text}", {"torch": torch}), at),
        asks="the slope of {0} at {1}",
    ),
    Exercise(
        title="A training loop",
        title_zh="训练循环",
        text="""Write `train(model, x, y, steps, rate)`: so many steps of plain gradient descent (`optim.SGD` with
        this rate) on the mean squared error of the model. Return the list of losses as Python floats, each from
        before its step.""",
        solution='''
        import rushlight as torch


        def train(model, x, y, steps, rate):
            """The losses of all steps."""
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            losses = []
            for _ in range(steps):
                loss = torch.nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses
        ''',
        hint="""Predict, compare, clear the old gradients, go backwards, step. Gradients add up when they are not
        cleared.""",
        cases=lambda: [(0, 0.1), (1, 0.1), (2, 0.1), (5, 0.25), (20, 0.05)],
        probe=trained,
        asks="[the losses, the weight, the bias] after {0} steps with rate {1}",
    ),
    Exercise(
        title="Find the first bad layer",
        title_zh="找出第一个坏层",
        text="""A network is a list of functions, applied one after the other. Return the number (from 0) of the first
        whose output holds a NaN or an infinity; None if all outputs are finite. If the input itself is not finite,
        return -1.""",
        solution='''
        import rushlight as torch


        def first_bad(layers, x):
            """The number of the first layer with a result that is not finite."""
            number = -1
            for layer in [None, *layers]:
                x = x if layer is None else layer(x)
                if torch.isfinite(x).logical_not().any():
                    return number
                number += 1
            return None
        ''',
        hint="`torch.isfinite(x).all()` before the first layer and after each.",
        cases=lambda: [
            ([], [1.0]),
            ([], [float("nan")]),
            (["x.log()"], [1.0]),
            (["x.log()"], [0.0, 1.0]),
            (["x - 1", "x.sqrt()"], [0.5]),
            (["x * 2", "1 / x", "x - x"], [0.0]),
            (["x.exp()"] * 3, [1.5, 0.0]),
            (["x * 0"], [float("inf")]),
        ],
        probe=lambda answer, texts, values: answer.first_bad(
            [eval(f"lambda x: {text}", {}) for text in texts], torch.tensor(values)
        ),
        asks="the layers {0} on {1}",
    ),
)
