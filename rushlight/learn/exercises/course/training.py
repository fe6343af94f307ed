"""Steps 20 to 25: modules, optimizers, a loss, data, a back end, and a network that learns."""

from itertools import pairwise
from types import ModuleType
from typing import Any

from ...exercise import Exercise


def network(answer: ModuleType, sizes: Any) -> Any:
    """A network of linear layers in a list, and a layer of its own, with what it gives."""

    class Net(answer.Module):
        def __init__(self) -> None:
            self.layers = [answer.Linear(a, b) for a, b in pairwise(sizes)]
            self.last = answer.Linear(sizes[-1], 1)
            self.name = "net"

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.last(x)

    net = Net()
    x = answer.Variable(answer.Array([float(k) for k in range(2 * sizes[0])], (2, sizes[0])))
    return [[parameter.data.shape, parameter.data.tolist()] for parameter in net.parameters()], net(x).data.tolist()


def stepped(answer: ModuleType, kind: Any, grads: Any) -> Any:
    """Two parameters after some steps of an optimizer; the second never gets a gradient."""
    first, second = (answer.Variable(answer.array([1.0, -2.0])) for _ in range(2))
    optimizer = answer.Adam([first, second], 0.1) if kind == "Adam" else answer.SGD([first, second], 0.1, 0.5)
    found = []
    for g in grads:
        first.grad = answer.array(g)
        optimizer.step()
        found.append(first.data.tolist())
    return found, second.data.tolist()


def lost(answer: ModuleType, logits: Any, labels: Any) -> Any:
    """A loss, and its gradient."""
    x = answer.Variable(answer.array(logits))
    loss = answer.cross_entropy(x, labels)
    answer.backprop(answer.mul(loss, answer.Variable(answer.array(2.0))))
    return loss.data.tolist(), loss.data.shape, x.grad.tolist()


def compiled(answer: ModuleType, tree: Any, shape: Any, strides: Any) -> Any:
    """The text of a loop nest, and what it computes."""
    text = answer.generate(tree, shape, strides)
    count = 1
    for size in shape:
        count *= size
    out = [0.0] * count
    inputs = {name: [0.5 * k - 1 for k in range(12)] for name in strides}
    answer.build(text)(out, **inputs)
    return text, out


def learned(answer: ModuleType, hidden: Any, count: Any, steps: Any) -> Any:
    """Losses and hits of a training, on digits that it saw and on others."""
    model = answer.Digits(hidden)
    images, labels = answer.digits(count, 1)
    losses = answer.train(model, images, labels, steps, min(count, 20), 0.05)
    others, theirs = answer.digits(20, 3)
    return losses, answer.accuracy(model, images, labels), answer.accuracy(model, others, theirs)


X_PLUS_Y = ("add", ("load", "x"), ("load", "y"))

TRAINING = (
    Exercise(
        title="Modules",
        title_zh="模块",
        text="""Write a class `Module` whose `parameters()` lists the Variables among its attributes, in the order in
        which they were set, and those of Modules among its attributes and in lists among them. Write `Linear(inputs,
        outputs)`, a Module with `weight` (inputs, outputs) and `bias` (outputs): the weight's element number k in
        flat order is ((k * 7 + 3) % 11 - 5) / (5 * inputs), biases are 0.0. Calling it with a Variable gives x @
        weight + bias.""",
        solution='''
        class Module:
            """Something with parameters."""

            def parameters(self):
                """All Variables in it, in their order."""
                found = []
                for value in vars(self).values():
                    for part in value if isinstance(value, list) else [value]:
                        if isinstance(part, Variable):
                            found.append(part)
                        elif isinstance(part, Module):
                            found.extend(part.parameters())
                return found


        class Linear(Module):
            """x @ weight + bias."""

            def __init__(self, inputs, outputs):
                """Weights that look random and are not."""
                values = [((k * 7 + 3) % 11 - 5) / (5 * inputs) for k in range(inputs * outputs)]
                self.weight = Variable(Array(values, (inputs, outputs)))
                self.bias = Variable(Array([0.0] * outputs, (outputs,)))

            def __call__(self, x):
                """The layer of a batch."""
                return add(dot(x, self.weight), self.bias)
        ''',
        hint="`vars(self)` is the dictionary of the attributes, in the order in which they were set.",
        cases=lambda: [([1],), ([2, 3],), ([3, 2, 4],)],
        probe=network,
        asks="[shapes and values of all parameters, the result] of a network of sizes {0} and a last layer of 1",
        needs=("course.17",),
    ),
    Exercise(
        title="Optimizers",
        title_zh="优化器",
        text="""Write `SGD(parameters, rate, momentum)` and `Adam(parameters, rate)`, each with `step()`; a parameter
        whose `grad` is None is left alone. SGD: velocity = momentum * velocity + g, the data loses rate * velocity.
        Adam, with 0.9, 0.999 and 1e-8: m = 0.9 m + 0.1 g, v = 0.999 v + 0.001 g², the data loses rate * (m / (1 -
        0.9^t)) / (sqrt(v / (1 - 0.999^t)) + 1e-8) in step t = 1, 2, …. Set `data` to a new Array.""",
        solution='''
        class SGD:
            """Gradient descent with momentum."""

            def __init__(self, parameters, rate, momentum):
                """Velocities begin at 0."""
                self.parameters, self.rate, self.momentum = list(parameters), rate, momentum
                self.velocity = [Array([0.0], ()) for _ in self.parameters]

            def step(self):
                """Move every parameter that has a gradient."""
                for k, parameter in enumerate(self.parameters):
                    if parameter.grad is not None:
                        v = pointwise(lambda v, g: self.momentum * v + g, self.velocity[k], parameter.grad)
                        parameter.data = pointwise(lambda x, v: x - self.rate * v, parameter.data, v)
                        self.velocity[k] = v


        class Adam:
            """Steps of about equal size, whatever the gradients' size."""

            def __init__(self, parameters, rate):
                """Moments begin at 0."""
                self.parameters, self.rate, self.t = list(parameters), rate, 0
                self.moments = [(Array([0.0], ()), Array([0.0], ())) for _ in self.parameters]

            def step(self):
                """Move every parameter that has a gradient."""
                self.t += 1
                for k, parameter in enumerate(self.parameters):
                    if parameter.grad is not None:
                        m = pointwise(lambda m, g: 0.9 * m + 0.1 * g, self.moments[k][0], parameter.grad)
                        v = pointwise(lambda v, g: 0.999 * v + 0.001 * g * g, self.moments[k][1], parameter.grad)
                        self.moments[k] = m, v
                        parameter.data = pointwise(self.moved, parameter.data, m, v)

            def moved(self, x, m, v):
                """One number after a step."""
                return x - self.rate * (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)) ** 0.5 + 1e-8)
        ''',
        hint="Velocities and moments may begin as Arrays without dims: `pointwise` broadcasts them.",
        cases=lambda: [
            (kind, grads)
            for kind in ("SGD", "Adam")
            for grads in ([[1.0, 2.0]], [[1.0, -2.0], [0.5, 0.0]], [[1e-3, 0.0], [2e-3, -4.0], [0.0, 1.0]])
        ],
        probe=stepped,
        asks="[a parameter after each step, one without a gradient] of {0} (rate 0.1, momentum 0.5) with {1}",
        needs=("course.16",),
        tolerance=1e-7,
    ),
    Exercise(
        title="Cross entropy",
        title_zh="交叉熵",
        text="""Write `cross_entropy(logits, labels)`: logits are a Variable (n, classes), labels a list of n numbers.
        The loss, a Variable without dims, is the mean over the rows of log(sum of exp(row)) - row[label]. Subtract a
        row's largest number before `exp`, so that nothing overflows. The gradient is g * (softmax - one-hot label) /
        n.""",
        solution='''
        import math


        def cross_entropy(logits, labels):
            """The mean loss of a batch of rows."""
            n = len(labels)
            loss, grad = 0.0, []
            for row, label in zip(logits.data.tolist(), labels):
                largest = max(row)
                powers = [math.exp(x - largest) for x in row]
                loss += math.log(sum(powers)) + largest - row[label]
                grad += [(power / sum(powers) - (k == label)) / n for k, power in enumerate(powers)]
            slope = Array(grad, logits.data.shape)
            return Variable(Array([loss / n], ()), [(logits, lambda g: times(g, slope))])
        ''',
        hint="log(sum(exp(x))) = m + log(sum(exp(x - m))) for any m.",
        cases=lambda: [
            ([[0.0, 0.0]], [0]),
            ([[1.0, 2.0]], [1]),
            ([[1000.0, 0.0]], [1]),
            ([[0.5, -1.0, 2.0], [3.0, 0.0, 0.25]], [2, 0]),
        ],
        probe=lost,
        asks="[the loss, its shape, the gradient of twice the loss] of {0} with labels {1}",
        needs=("course.18",),
    ),
    Exercise(
        title="Digits, shuffled",
        title_zh="打乱的数字",
        text="""`digits(count, seed)` returns (images, labels): image k shows the glyph of label k % 10 as 15 numbers
        (1.0 for #), after which pixel number r % 15 is flipped, r being the next random number for each image.
        `batches(count, size, seed)` returns lists of row numbers: the rows 0 … count-1, shuffled, cut into pieces of
        `size`, the last one maybe shorter. Shuffle from the last place down to place 1: swap place k with place r %
        (k + 1). Random numbers: r = (r * 1103515245 + 12345) % 2**31 beginning with the seed; the first is the one
        after the seed.""",
        solution='''
        GLYPHS = (
            "####.##.##.####,.#..#..#..#..#.,###..#####..###,###..####..####,#.##.####..#..#,"
            "####..###..####,####..####.####,###..#..#..#..#,####.#####.####,####.####..####"
        )


        def randoms(seed):
            """Numbers that look random, without end."""
            while True:
                seed = (seed * 1103515245 + 12345) % 2**31
                yield seed


        def digits(count, seed):
            """Noisy pictures of digits, and what they show."""
            images = []
            labels = [k % 10 for k in range(count)]
            for label, r in zip(labels, randoms(seed)):
                image = [float(mark == "#") for mark in GLYPHS.split(",")[label]]
                image[r % 15] = 1.0 - image[r % 15]
                images.append(image)
            return images, labels


        def batches(count, size, seed):
            """Row numbers, shuffled, in batches."""
            rows = list(range(count))
            source = randoms(seed)
            for k in range(count - 1, 0, -1):
                other = next(source) % (k + 1)
                rows[k], rows[other] = rows[other], rows[k]
            return [rows[k : k + size] for k in range(0, count, size)]
        ''',
        hint="A generator makes the random numbers. This shuffle is that of Fisher and Yates.",
        cases=lambda: [(1, 1, 0), (2, 1, 5), (3, 2, 5), (5, 5, 6), (7, 3, 1), (12, 5, 2)],
        probe=lambda answer, count, size, seed: [answer.batches(count, size, seed), *answer.digits(count, seed)],
        asks="[the batches, images, labels] of {0} rows, batches of {1}, seed {2}",
    ),
    Exercise(
        title="A back end of loop nests",
        title_zh="循环嵌套的后端",
        text="""An expression is ("load", name), ("const", number), ("add", a, b), ("mul", a, b) or ("relu", a). Write
        `generate(tree, shape, strides)`, the text of one fused loop nest as a Python function `nest(out, x, y, …)`
        with a parameter for each name in `strides` (a dictionary from names to strides), in its order. For the shape
        (2, 3) and strides {"x": (3, 1)} its lines are "def nest(out, x):", " for i0 in range(2):", " for i1 in
        range(3):", then " out[i0 * 3 + i1 * 1] = x[i0 * 3 + i1 * 1]" (fresh strides for `out`; a shape of no dims has
        the place "0"). Sums are "(A + B)", products "(A * B)", relu is "max(A, 0.0)", numbers are written by `repr`.
        The text ends with a newline. `build(text)` returns the function that such a text defines.""",
        solution='''
        def at(strides):
            """The text of a place."""
            return " + ".join(f"i{dim} * {stride}" for dim, stride in enumerate(strides)) or "0"


        def body(tree, strides):
            """The text of an expression."""
            kind, *parts = tree
            if kind == "load":
                return f"{parts[0]}[{at(strides[parts[0]])}]"
            if kind == "const":
                return repr(parts[0])
            texts = [body(part, strides) for part in parts]
            if kind == "relu":
                return f"max({texts[0]}, 0.0)"
            return f"({texts[0]} {'+' if kind == 'add' else '*'} {texts[1]})"


        def build(text):
            """The function that a text defines."""
            names = {}
            exec(text, names)
            return names["nest"]


        def generate(tree, shape, strides):
            """The text of one loop nest for a whole expression."""
            lines = [f"def nest({', '.join(['out', *strides])}):"]
            for dim, size in enumerate(shape):
                lines.append("    " * (dim + 1) + f"for i{dim} in range({size}):")
            lines.append("    " * (len(shape) + 1) + f"out[{at(strides_of(shape))}] = {body(tree, strides)}")
            return "\\n".join(lines) + "\\n"
        ''',
        hint="""One recursive function writes expressions, one writes places; the nest is a line per dim, indented by
        four more each time. `exec(text, names)` defines what a text says.""",
        cases=lambda: [
            (("load", "x"), (), {"x": ()}),
            (("load", "x"), (3,), {"x": (1,)}),
            (("relu", ("load", "x")), (3,), {"x": (2,)}),
            (X_PLUS_Y, (2, 3), {"x": (3, 1), "y": (0, 1)}),
            (("mul", ("const", 0.5), X_PLUS_Y), (2, 2), {"y": (1, 2), "x": (4, 1)}),
            (("add", ("mul", ("load", "x"), ("load", "x")), ("const", -2.0)), (2, 1, 2), {"x": (4, 0, 2)}),
        ],
        probe=compiled,
        asks="[the text, out with inputs -1, -0.5, 0, …] of {0} over {1} with strides {2}",
        needs=("course.6",),
    ),
    Exercise(
        title="It learns",
        title_zh="它学会了",
        text="""Put it together. `Digits(hidden)` is a Module: Linear(15, hidden), relu, Linear(hidden, 10).
        `train(model, images, labels, steps, size, rate)` takes so many steps of Adam: step s (from 0) goes through
        `batches(len(images), size, s)` but takes only its first batch; the list of the losses before each update is
        returned. `accuracy(model, images, labels)` is the share of images whose largest logit (the first of equal
        ones) is the label's.""",
        solution='''
        class Digits(Module):
            """15 pixels to 10 logits."""

            def __init__(self, hidden):
                """Two layers."""
                self.first = Linear(15, hidden)
                self.second = Linear(hidden, 10)

            def __call__(self, x):
                """The logits of a batch."""
                return self.second(relu(self.first(x)))


        def train(model, images, labels, steps, size, rate):
            """Steps of Adam; the losses before each."""
            optimizer = Adam(model.parameters(), rate)
            losses = []
            for step in range(steps):
                rows = batches(len(images), size, step)[0]
                logits = model(Variable(array([images[row] for row in rows])))
                loss = cross_entropy(logits, [labels[row] for row in rows])
                backprop(loss)
                optimizer.step()
                losses.append(loss.data.tolist())
            return losses


        def accuracy(model, images, labels):
            """The share of images that are recognised."""
            rows = model(Variable(array(images))).data.tolist()
            return sum(row.index(max(row)) == label for row, label in zip(rows, labels)) / len(labels)
        ''',
        hint="Batches hold row numbers: pick images and labels with them. `array` makes an Array of a list of images.",
        cases=lambda: [(3, 10, 1), (4, 10, 3), (12, 60, 60)],
        probe=learned,
        asks="[the losses, hits on what was seen, hits on others] with {0} hidden units, {1} digits, {2} steps",
        needs=("course.20", "course.21", "course.22", "course.23"),
    ),
)
