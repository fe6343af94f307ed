"""Steps 15 to 19: gradients of arrays."""

from types import ModuleType
from typing import Any

from ...exercise import Exercise


def remembered(answer: ModuleType, a: Any, b: Any) -> Any:
    """Values of add and mul, and what their rules make of a gradient of ones, twos, threes …"""
    found = []
    for make in (answer.add, answer.mul):
        x, y = answer.Variable(answer.array(a)), answer.Variable(answer.array(b))
        result = make(x, y)
        g = answer.Array([float(k + 1) for k in range(len(result.data.flat()))], result.data.shape)
        ways = [(parent is kept, rule(g).tolist()) for (parent, rule), kept in zip(result.parents, (x, y))]
        found.append([result.data.tolist(), ways, result.grad])
    return found, x.parents


def ruled(answer: ModuleType, a: Any, b: Any) -> Any:
    """dot, relu and total: their values, and their rules on a gradient of 1, 2, 3 …"""
    x, y = answer.Variable(answer.array(a)), answer.Variable(answer.array(b))
    found = []
    for result in (answer.dot(x, y), answer.relu(x), answer.total(x)):
        g = answer.Array([float(k + 1) for k in range(len(result.data.flat()))], result.data.shape)
        found.append([result.data.tolist(), result.data.shape, [rule(g).tolist() for _, rule in result.parents]])
    return found


def programs(answer: ModuleType) -> Any:
    def one(x: Any, y: Any) -> Any:
        return answer.total(answer.mul(x, answer.add(x, y)))

    def two(x: Any, y: Any) -> Any:
        return answer.total(answer.relu(answer.mul(answer.add(x, y), answer.add(x, x))))

    return {"sum(x * (x + y))": one, "sum(relu((x + y) * 2x))": two}


def graded(answer: ModuleType, name: Any, a: Any, b: Any) -> Any:
    x, y = answer.Variable(answer.array(a)), answer.Variable(answer.array(b))
    end = programs(answer)[name](x, y)
    answer.backprop(end)
    return x.grad.tolist(), y.grad.tolist(), end.grad.tolist()


def checked(answer: ModuleType, name: Any, a: Any, b: Any, wrong: Any) -> Any:
    """The largest difference that gradcheck finds, for right gradients, or for such that are too large by `wrong`."""
    program = programs(answer)[name]

    def bent(x: Any, y: Any) -> Any:
        result = program(x, y)
        parents = [
            (parent, lambda g, rule=rule: answer.pointwise(lambda v: v + wrong, rule(g)))
            for parent, rule in result.parents
        ]
        return answer.Variable(result.data, parents)

    return answer.gradcheck(bent if wrong else program, answer.array(a), answer.array(b))


MATRIX = [[1.0, -2.0, 3.0], [0.5, 5.0, -6.0]]

TAPE = (
    Exercise(
        title="Undo a broadcast",
        title_zh="撤销广播",
        text="""A gradient has the shape of the result, an operand may have been smaller. Write `unbroadcast(g,
        shape)`: sum g over the dims that are new at the front, and over those that were of size 1, which stay as dims
        of size 1.""",
        solution='''
        def unbroadcast(g, shape):
            """A gradient in the shape of an operand."""
            while len(g.shape) > len(shape):
                g = reduce(lambda x, y: x + y, 0.0, g, 0)
            for dim, size in enumerate(shape):
                if size == 1:
                    sums = reduce(lambda x, y: x + y, 0.0, g, dim)
                    g = Array(sums.flat(), g.shape[:dim] + (1,) + g.shape[dim + 1 :])
            return g
        ''',
        hint="""What was repeated on the way there is summed on the way back. `reduce` drops the dim: put a 1 in its
        place.""",
        cases=lambda: [
            (5.0, ()),
            ([1.0, 2.0], ()),
            ([1.0, 2.0], (2,)),
            ([1.0, 2.0], (1,)),
            (MATRIX, (3,)),
            (MATRIX, (2, 1)),
            (MATRIX, (1, 3)),
            (MATRIX, (1, 1)),
            (MATRIX, (1,)),
            ([[[1.0, 2.0], [3.0, 4.0]]] * 3, (2, 1)),
        ],
        probe=lambda answer, nested, shape: shaped(answer.unbroadcast(answer.array(nested), shape)),
        asks="[the gradient, its shape] of {0} for an operand of shape {1}",
        needs=("course.13",),
    ),
    Exercise(
        title="Variables and rules",
        title_zh="变量与规则",
        text="""Write a class `Variable(data, parents=())` with `data` (an Array), `grad` (None at first) and
        `parents`, a list of pairs (Variable, rule): a rule takes the gradient of the result, an Array, and returns
        that of the parent, in the parent's shape. Write `add(a, b)` and `mul(a, b)` of two Variables, which
        broadcast.""",
        solution='''
        class Variable:
            """An Array that remembers what it was made of."""

            def __init__(self, data, parents=()):
                """`parents` are pairs (Variable, rule)."""
                self.data = data
                self.grad = None
                self.parents = list(parents)


        def times(x, y):
            """The product of two Arrays."""
            return pointwise(lambda p, q: p * q, x, y)


        def add(a, b):
            """The sum of two Variables."""
            data = pointwise(lambda p, q: p + q, a.data, b.data)
            rules = [(a, lambda g: unbroadcast(g, a.data.shape)), (b, lambda g: unbroadcast(g, b.data.shape))]
            return Variable(data, rules)


        def mul(a, b):
            """The product of two Variables."""
            rules = [
                (a, lambda g: unbroadcast(times(g, b.data), a.data.shape)),
                (b, lambda g: unbroadcast(times(g, a.data), b.data.shape)),
            ]
            return Variable(times(a.data, b.data), rules)
        ''',
        hint="The rule of a product for a is g times the data of b, summed to the shape of a.",
        cases=lambda: [([2.0], [3.0]), ([1.0, 2.0], [3.0, 4.0]), (MATRIX, 2.0), ([[1.0], [2.0]], [3.0, 4.0, 5.0])],
        probe=remembered,
        asks="[the data, the parents' rules on 1, 2, 3 …, the grad] of add and mul of {0} and {1}",
        needs=("course.15",),
    ),
    Exercise(
        title="Rules for a network",
        title_zh="网络所需的规则",
        text="""Write three more ops on Variables: `dot(a, b)`, the matrix product; `relu(a)`, whose derivative at 0
        is 0; and `total(a)`, the sum of all elements, with no dims.""",
        solution='''
        def dot(a, b):
            """The product of two matrices."""
            rules = [
                (a, lambda g: matmul(g, transpose(b.data, 0, 1))),
                (b, lambda g: matmul(transpose(a.data, 0, 1), g)),
            ]
            return Variable(matmul(a.data, b.data), rules)


        def relu(a):
            """Positive elements, and 0."""
            data = pointwise(lambda x: max(x, 0.0), a.data)
            return Variable(data, [(a, lambda g: pointwise(lambda p, x: p if x > 0 else 0.0, g, a.data))])


        def total(a):
            """The sum of all elements."""
            shape = a.data.shape
            return Variable(Array([sum(a.data.flat())], ()), [(a, lambda g: Array(expand(g, shape).flat(), shape))])
        ''',
        hint="For y = a b: the gradient of a is g bᵀ, that of b is aᵀ g. The gradient of a sum repeats g.",
        cases=lambda: [
            ([[2.0]], [[3.0]]),
            ([[0.0, -1.0]], [[1.0], [2.0]]),
            (MATRIX, [[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]]),
            ([[1.0], [-1.0]], [[2.0, 3.0]]),
        ],
        probe=ruled,
        asks="[the data, its shape, the rules on 1, 2, 3 …] of dot, relu and total for {0} and {1}",
        needs=("course.14", "course.16"),
    ),
    Exercise(
        title="Back along the tape",
        title_zh="沿着磁带返回",
        text="""Write `backprop(end)`: `end` (a Variable without dims) gets a gradient of 1.0, and every Variable
        behind it the sum of what its users pass back, as an Array. A gradient that is there from before is
        replaced.""",
        solution='''
        def backprop(end):
            """Gradients of everything behind a Variable."""
            order, seen = [], set()

            def visit(node):
                if id(node) not in seen:
                    seen.add(id(node))
                    for parent, _ in node.parents:
                        visit(parent)
                    node.grad = None
                    order.append(node)

            visit(end)
            end.grad = Array([1.0], ())
            for node in reversed(order):
                for parent, rule in node.parents:
                    g = rule(node.grad)
                    parent.grad = g if parent.grad is None else pointwise(lambda x, y: x + y, parent.grad, g)
        ''',
        hint="""The order is that of step 2. Add with `pointwise`, and never in place: a rule may have handed on an
        Array that others hold.""",
        cases=lambda: [
            ("sum(x * (x + y))", [2.0], [3.0]),
            ("sum(x * (x + y))", MATRIX, [1.0, 0.0, -1.0]),
            ("sum(relu((x + y) * 2x))", [1.0, -2.0], 0.5),
        ],
        probe=lambda answer, *case: [graded(answer, *case), graded_twice(answer, *case)],
        asks="[the gradients, those of x after going back twice] of {0} at x = {1}, y = {2}",
        needs=("course.17",),
    ),
    Exercise(
        title="Check the gradients",
        title_zh="检验梯度",
        text="""Write `gradcheck(f, *inputs)`: f takes Variables and returns one without dims; the inputs are Arrays
        with fresh strides. Return the largest absolute difference, over all elements of all inputs, between the
        gradient from `backprop` and (f(x + h) - f(x - h)) / 2h for that element with h = 0.001.""",
        solution='''
        def gradcheck(f, *inputs):
            """How far gradients are from differences, at most."""
            variables = [Variable(a) for a in inputs]
            backprop(f(*variables))
            worst = 0.0
            for a, variable in zip(inputs, variables):
                for at, g in enumerate(variable.grad.flat()):
                    kept = a.storage[at]
                    a.storage[at] = kept + 0.001
                    above = f(*map(Variable, inputs)).data.flat()[0]
                    a.storage[at] = kept - 0.001
                    below = f(*map(Variable, inputs)).data.flat()[0]
                    a.storage[at] = kept
                    worst = max(worst, abs(g - (above - below) / 0.002))
            return worst
        ''',
        hint="Change one number of the storage, compute, change it the other way, compute, put it back.",
        cases=lambda: [
            ("sum(x * (x + y))", [2.0], [3.0], 0),
            ("sum(x * (x + y))", [2.0], [3.0], 0.25),
            ("sum(x * (x + y))", [1.0, -2.0], [3.0, 0.5], 0.5),
            ("sum(x * (x + y))", [1.0, -2.0], [3.0, 0.5], -0.5),
        ],
        probe=checked,
        asks="gradcheck of {0} at {1} and {2}, the gradients wrong by {3}",
        needs=("course.18",),
    ),
)


def shaped(array: Any) -> Any:
    return array.tolist(), array.shape


def graded_twice(answer: ModuleType, name: Any, a: Any, b: Any) -> Any:
    x, y = answer.Variable(answer.array(a)), answer.Variable(answer.array(b))
    for _ in range(2):
        answer.backprop(programs(answer)[name](x, y))
    return x.grad.tolist()
