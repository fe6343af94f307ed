"""Tensors of the program's own classes: handlers of functions, tensors made of others, parameters."""

from __future__ import annotations

import functools

import rushlight as torch
from rushlight import nn
from rushlight.utils._python_dispatch import return_and_correct_aliasing
from rushlight.utils._pytree import tree_map

from .harness import case, tensors


class Tagged(torch.Tensor):
    """Results are of the class too."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})

    def twice(self):
        return self + self

    @property
    def rows(self):
        return self.shape[0]


class Inheriting(torch.Tensor):
    pass


class Doubling(torch.Tensor):
    """A sine is twice as large; results are plain."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result * 2 if func.__name__ == "sin" else result


class Logging(torch.Tensor):
    seen: list = []  # noqa: RUF012 - the class's own

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def of(kind):
    return lambda: (torch.randn(3, 4).as_subclass(kind),)


def with_grad(kind):
    def make():
        (x,) = tensors()
        return x, (x * 2).as_subclass(kind)

    return make


@case("a class with a handler, as an argument", of(Tagged))
def _(x):
    y = x.sin() * 2
    return y, type(y).__name__, y.sum()


@case("a class with a handler, and an element that decides", of(Tagged), breaks=True)
def _(x):
    y = x.sin() * 2
    return (1 if y.sum() > 100 else 2), type(y).__name__


@case("a class with a handler, and an element", of(Tagged))
def _(x):
    y = x.sin() * 2
    return y.sum().item(), type(y).__name__


@case("a class without a handler of its own", of(Inheriting))
def _(x):
    return x + 1, torch.cat([x, x]), x.max(dim=0)[0], isinstance(x * 2, Inheriting)


@case("a class whose handler changes results", of(Doubling))
def _(x):
    return torch.sin(x), x.cos(), type(x + 1) is torch.Tensor


@case("a class with gradients", with_grad(Tagged))
def _(x, y):
    return (y * x).sum(), type(y * x).__name__


@case("a class that was made here")
def _(x):
    y = (x + 1).as_subclass(Tagged)
    return y * 2, type(y).__name__, y


@case("a class that becomes plain again", of(Tagged))
def _(x):
    y = x.as_subclass(torch.Tensor) * 3
    return y, type(y).__name__, x.detach()


@case("methods and properties of a class of tensors", of(Tagged))
def _(x):
    return x.twice(), x.rows, x.twice().rows


@case("attributes of a class of tensors", of(Tagged))
def _(x):
    x.tag = "seen"
    y = x + 1
    y.tag = x.tag + " twice"
    y.more = [x.tag, y]
    return y.tag, y


@case("a class's handler that keeps a list", lambda: (Logging.seen.clear(), *of(Logging)())[1:],
      lambda: list(Logging.seen))
def _(x):
    return (x.sin() + x).cos()


@case("two classes meet", lambda: (torch.ones(3).as_subclass(Tagged), torch.ones(3).as_subclass(Inheriting)))
def _(x, y):
    try:
        return x + y
    except TypeError as error:
        return type(error).__name__


class Child(Tagged):
    pass


@case("a class and its subclass meet", lambda: (torch.ones(3).as_subclass(Tagged), torch.ones(3).as_subclass(Child)))
def _(x, y):
    return type(x + y).__name__, type(y * x).__name__, x + y


@case("writes to a tensor of a class", of(Tagged))
def _(x):
    x.add_(1)
    x[0] = 5
    return x, x.sum()


@case("a class of tensors made by its constructor", of(torch.Tensor))
def _(x):
    y = Named(x + 1, "one")
    return y * 2, y.name, y


class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, data, name):
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data, name):
        self.name = name


@case("a break between ops of a class", of(Tagged), breaks=True)
def _(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y * 2, type(y).__name__, y.twice()


class Meters:
    """No tensor, but it takes calls of functions."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        bare = [a.value if isinstance(a, Meters) else a for a in args]
        return Meters(func(*bare, **(kwargs or {})))


@case("an object that is no tensor takes calls", lambda: (Meters(torch.ones(3)), torch.ones(3)))
def _(m, x):
    y = torch.add(m, x)
    return y.value * 2, type(y).__name__, torch.sin(y).value


HANDLED = {}


def implements(name):
    def register(function):
        HANDLED[name] = function
        return function

    return register


class Scalar:
    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ not in HANDLED:
            return NotImplemented
        return HANDLED[func.__name__](*args, **(kwargs or {}))


@implements("mean")
def _mean(s):
    return s.value / s.n


@case("handlers in a table", lambda: (Scalar(4, 2.0), torch.ones(3)))
def _(s, x):
    return torch.mean(s) * x


# --- parameters -------------------------------------------------------------------------------------------------------


class Scaled(nn.Parameter):
    factor = 3

    def scaled(self):
        return self * self.factor


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Scaled(torch.ones(4))

    def forward(self, x):
        return x @ self.weight.scaled(), isinstance(self.weight, Scaled)


@case("a class of parameters", lambda: (Holder(), *tensors()))
def _(m, x):
    return m(x)


class Watched(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


@case("a class of parameters with a handler", lambda: (Watched(torch.ones(4)), *tensors()))
def _(p, x):
    return (x * p).sum(), type(p * 2).__name__


# --- tensors made of others -------------------------------------------------------------------------------------------


class Two(torch.Tensor):
    """Two tensors on which everything is done twice."""

    @staticmethod
    def __new__(cls, a, b, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, strides=a.stride(), dtype=a.dtype, device=a.device,
                                                   requires_grad=requires_grad)

    def __init__(self, a, b, requires_grad=False):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}

        def part(name):
            given = tree_map(lambda t: getattr(t, name) if isinstance(t, Two) else t, (args, kwargs))
            return func(*given[0], **given[1])

        a, b = part("a"), part("b")
        if isinstance(a, torch.Tensor):
            return return_and_correct_aliasing(func, args, kwargs, Two(a, b))
        return type(a)(Two(x, y) if isinstance(x, torch.Tensor) else x for x, y in zip(a, b, strict=True))

    def swapped(self):
        return Two(self.b, self.a)


def two(requires_grad=False):
    return lambda: (Two(torch.randn(3, 4), torch.randn(3, 4)).requires_grad_(requires_grad),)


@case("a tensor of class Two, made of two", two())
def _(x):
    return x.sin() * 2 + 1, x.sum(0)


@case("a tensor of class Two with gradients", two(True))
def _(x):
    return (x * x).exp().sum(1)


@case("a tensor of class Two with gradients, and a plain one", lambda: (*two(True)(), torch.randn(3, 4)))
def _(x, y):
    return x * y, (y + 1).sum()


@case("parts of a tensor of class Two", two())
def _(x):
    return x.a + 1, x.sin().b, type(x).__name__


@case("a tensor of class Two that is made here")
def _(x):
    y = Two(x.detach() + 1, x.detach() * 2)
    return y.cos(), (y * 2).b


@case("a method of class Two", two())
def _(x):
    return x.swapped() * 2


@case("writes to a tensor of class Two", two())
def _(x):
    x.mul_(2)
    return x + 1


@case("a break behind a tensor of class Two", two(), breaks=True)
def _(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y * 2, y.a


class Quantized(torch.Tensor):
    """Bytes with a scale, which are numbers whenever somebody computes with them."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_", "scale"], {"bits": 8}

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["data_"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = functools.partial(tree_map, lambda t: t.data_ * t.scale if isinstance(t, Quantized) else t)
        if func._opname == "detach":
            return Quantized(args[0].data_, args[0].scale)
        return func(*bare(args), **bare(kwargs or {}))


class QuantizedLinear(nn.Module):
    def __init__(self):
        super().__init__()
        weight = Quantized(torch.randint(-8, 8, (5, 4), dtype=torch.int8), torch.tensor(0.1))
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


@case("a weight of a quantized class", lambda: (QuantizedLinear(), *tensors()))
def _(m, x):
    return m(x).relu()
