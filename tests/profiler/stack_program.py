"""A program whose stack is compared: `main` runs on whatever library it is given. Its lines are part of the answers."""


def make(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.lift = nn.Linear(width, width)

        def forward(self, x):
            return x + self.gate(self.lift(self.norm(x)))

        def gate(self, x):
            return x.sigmoid() * x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(4), Block(4)])
            self.head = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
            self.head.register_forward_hook(watch)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Net()


def watch(module, args, result):
    return result * 2


class Doubled:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def factorial(torch, n):
    return torch.ones(1) if n == 0 else factorial(torch, n - 1) * n


def batches(torch, count):
    for index in range(count):
        yield torch.full((2, 4), float(index))


def failing(torch):
    try:
        torch.zeros(2, 3).reshape(5)
    except RuntimeError:
        return torch.zeros(1)


def raises(torch):
    torch.ones(3)
    raise ValueError


def callbacks(torch, values):
    ordered = sorted(values, key=lambda value: float(value.sum()))
    return list(map(torch.relu, ordered))


async def later(torch):
    return torch.ones(2) + 1


def coroutine(torch):
    try:
        later(torch).send(None)
    except StopIteration as done:
        return done.value


def scale(torch):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return helper(g)

    return Scale


def helper(g):
    return g * 3


def train(torch, net, function, x):
    loss = function.apply(net(x)).square().mean()
    loss.backward()
    return loss.detach()


def main(torch, net, function):
    for batch in batches(torch, 2):
        train(torch, net, function, batch)
    factorial(torch, 3)
    failing(torch)
    with Doubled():
        raises(torch)
    callbacks(torch, [torch.ones(2), torch.zeros(2)])
    coroutine(torch)
    with torch.profiler.record_function("label"):
        [torch.exp(value) for value in (torch.ones(1), torch.zeros(1))]
    with torch.no_grad():
        net(torch.ones(1, 4))
