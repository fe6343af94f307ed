"""Steps 1 to 5: numbers that remember where they came from."""

from types import ModuleType
from typing import Any

from ...exercise import Exercise


def leaves(answer: ModuleType, a: Any, b: Any) -> Any:
    """What a product and a sum, with each other and with plain numbers, remember."""
    x, y = answer.Scalar(a), answer.Scalar(b)
    made = [x + y, x * y, x + 3.0, x * 4.0]
    return [[one.value, [(parent.value, slope) for parent, slope in one.parents], one.grad] for one in made], x.parents


def ordered(answer: ModuleType, a: Any, b: Any) -> Any:
    x, y = answer.Scalar(a), answer.Scalar(b)
    total = x + y
    return [one.value for one in answer.order(total * x + total)], [one.value for one in answer.order(x)]


def graded(answer: ModuleType, a: Any, b: Any) -> Any:
    """Gradients of two programs, the second through numbers used twice."""
    x, y = answer.Scalar(a), answer.Scalar(b)
    answer.backward(x * y + x)
    u, v = answer.Scalar(a), answer.Scalar(b)
    twice = u * v + v
    answer.backward(twice * twice + u)
    return x.grad, y.grad, u.grad, v.grad, twice.grad


def curved(answer: ModuleType, a: Any) -> Any:
    found = []
    for make in (answer.tanh, answer.relu, lambda x: answer.power(x, 3), lambda x: answer.power(x, 0)):
        x = answer.Scalar(a)
        y = make(x)
        answer.backward(y * 2.0)
        found.append((y.value, x.grad))
    return found


SCALARS = (
    Exercise(
        title="A number that remembers",
        title_zh="会记忆的数",
        text="""Write a class `Scalar(value, parents=())` with the attributes `value`, `grad` (0.0 at first) and
        `parents`, a list of pairs (parent, slope). `a + b` and `a * b` give new Scalars whose parents are a and b, in
        this order, each with the derivative of the result for it. The right operand may be a plain number, which
        becomes a Scalar.""",
        solution='''
        class Scalar:
            """A number, what it was made of, and the slope for each."""

            def __init__(self, value, parents=()):
                """A number that was made of `parents`: pairs (Scalar, slope)."""
                self.value = value
                self.grad = 0.0
                self.parents = list(parents)

            def __add__(self, other):
                """The sum."""
                other = other if isinstance(other, Scalar) else Scalar(other)
                return Scalar(self.value + other.value, [(self, 1.0), (other, 1.0)])

            def __mul__(self, other):
                """The product."""
                other = other if isinstance(other, Scalar) else Scalar(other)
                return Scalar(self.value * other.value, [(self, other.value), (other, self.value)])
        ''',
        hint="The slope of a * b for a is the value of b.",
        cases=lambda: [(2.0, 3.0), (0.0, -1.5), (7.0, 7.0)],
        probe=leaves,
        asks="[value, parents, grad] of x + y, x * y, x + 3, x * 4, and the parents of x, for x, y = {0}, {1}",
    ),
    Exercise(
        title="The order of going back",
        title_zh="回溯的次序",
        text="""Return all Scalars that `end` was made of, `end` first, each before its own parents. Visit parents in
        their order, note a Scalar after all its parents are noted, and reverse the notes. Compare Scalars by identity
        (`is`, `id`), not by value.""",
        solution='''
        def order(end):
            """Everything behind a Scalar, users before what they use."""
            noted = []
            seen = set()

            def visit(node):
                if id(node) not in seen:
                    seen.add(id(node))
                    for parent, _ in node.parents:
                        visit(parent)
                    noted.append(node)

            visit(end)
            return noted[::-1]
        ''',
        hint="A set of `id(node)` remembers who was visited.",
        cases=lambda: [(2.0, 3.0), (1.0, 1.0), (0.5, -4.0)],
        probe=ordered,
        asks="[the values in the order of (x + y) * x + (x + y), the same of x] for x, y = {0}, {1}",
        needs=("course.1",),
    ),
    Exercise(
        title="Backward",
        title_zh="反向传播",
        text="""Write `backward(end)`: the `grad` of `end` becomes 1.0, and every Scalar behind it gets the derivative
        of `end` for it in its `grad`. Each passes on grad * slope to its parents, where what arrives adds up.""",
        solution='''
        def backward(end):
            """Derivatives of `end`, in the `grad` of everything behind it."""
            end.grad = 1.0
            for node in order(end):
                for parent, slope in node.parents:
                    parent.grad += node.grad * slope
        ''',
        hint="In the order of step 2 everything has arrived at a Scalar before it passes anything on.",
        cases=lambda: [(2.0, 3.0), (0.5, -4.0), (0.0, 1.0)],
        probe=graded,
        asks="[grads of x, y of x * y + x; of u, v, t of t * t + u, t = u * v + v] at {0}, {1}",
        needs=("course.2",),
    ),
    Exercise(
        title="More functions",
        title_zh="更多函数",
        text="""Write `tanh(x)`, `relu(x)` and `power(x, n)` (n a whole number, not negative) for Scalars. The slope
        of relu at 0 is 0.""",
        solution='''
        import math


        def tanh(x):
            """The hyperbolic tangent."""
            value = math.tanh(x.value)
            return Scalar(value, [(x, 1.0 - value * value)])


        def relu(x):
            """x where it is positive, otherwise 0."""
            return Scalar(x.value, [(x, 1.0)]) if x.value > 0 else Scalar(0.0, [(x, 0.0)])


        def power(x, n):
            """x to the power n."""
            return Scalar(x.value**n, [(x, n * x.value ** (n - 1) if n > 0 else 0.0)])
        ''',
        hint="The slope of tanh is 1 - tanh², that of x ** n is n * x ** (n - 1); for n = 0 it is 0, also at 0.",
        cases=lambda: [(0.5,), (-0.5,), (0.0,), (2.0,)],
        probe=curved,
        asks="[value, slope of twice the value] of tanh, relu, power 3, power 0 at {0}",
        needs=("course.3",),
    ),
    Exercise(
        title="Fit a line",
        title_zh="拟合直线",
        text="""Fit w * x + b to points (x, y) by gradient descent with Scalars, both beginning at 0.0. The loss is
        the sum over the points of (w * x + b - y)²; each of `steps` steps subtracts rate times its gradient. Return
        (w, b, the loss before each step) as plain numbers.""",
        solution='''
        def fit(points, steps, rate):
            """The line after some steps, and the losses on the way."""
            w, b = 0.0, 0.0
            losses = []
            for _ in range(steps):
                slope, height, loss = Scalar(w), Scalar(b), Scalar(0.0)
                for x, y in points:
                    loss = loss + power(slope * x + height + -y, 2)
                backward(loss)
                losses.append(loss.value)
                w -= rate * slope.grad
                b -= rate * height.grad
            return w, b, losses
        ''',
        hint="Make fresh Scalars of w and b in each step, so that no gradient is left from the last one.",
        cases=lambda: [
            ([(1.0, 2.0)], 0, 0.1),
            ([(1.0, 2.0)], 1, 0.1),
            ([(0.0, 1.0), (1.0, 3.0)], 3, 0.1),
            ([(0.0, 1.0), (1.0, 3.0), (2.0, 4.5)], 20, 0.05),
        ],
        needs=("course.4",),
    ),
)
