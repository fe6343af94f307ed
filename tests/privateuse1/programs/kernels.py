"""A back end with kernels and no fallback: what its kernels give, what the others raise, and who else asks it."""

import copy
import io

import numpy as np
import torch
from answers import ask
from backend import CALLS, SEEDS, NpyTensor, answered, host, kernel, library

a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="npy")
b = torch.tensor([[1.0, -2.0], [3.0, -4.0]]).to("npy")
ask("class", lambda: type(a).__name__)
ask("what it says", lambda: [a.device, a.is_npy, b.device.index, list(a.shape), a.stride(), a.dtype, a.numel(),
                             a.is_cpu, a.get_device(), a.storage_offset(), a.is_contiguous(), a.is_leaf, a.type()])
ask("no memory", lambda: [a.untyped_storage().nbytes(), str(a.untyped_storage().device)])
ask("missing", lambda: a + b)
ask("missing default", lambda: a.relu())
ask("missing factory", lambda: torch.ones(2, device="npy"))
ask("missing inplace", lambda: a.add_(b))


def told(question):
    try:
        question()
    except NotImplementedError as error:
        text = str(error)
        return ["'npy'" in text or "npy" in text, "CPU" in text, "AutogradPrivateUse1" in text,
                text.partition("'")[2].partition("'")[0]]


ask("missing says", lambda: told(lambda: a.relu()))
ask("missing says out", lambda: told(lambda: a + b))


@kernel("add.Tensor")
def add(self, other, *, alpha=1):
    other = other.raw if isinstance(other, torch.Tensor) else other
    return NpyTensor(self.raw + alpha * other, self.dtype)


@torch.library.impl("aten::mul.Tensor", "privateuseone")
def mul(self, other):
    CALLS.append("mul.Tensor")
    other = other.raw if isinstance(other, torch.Tensor) else other
    return NpyTensor(np.asarray(self.raw * other), self.dtype)


@torch.library.impl(library, "sum", "PrivateUse1")
def sum_all(self, *, dtype=None):
    CALLS.append("sum")
    return NpyTensor(np.asarray(self.raw.sum()), self.dtype)


@kernel("fill_.Scalar")
def fill(self, value):
    self.raw[...] = value
    return self


@kernel("mul.out")
def mul_out(self, other, *, out):
    out.raw[...] = self.raw * (other.raw if isinstance(other, torch.Tensor) else other)
    return out


@kernel("sub.out")
def sub_out(self, other, *, alpha=1, out):
    out.raw[...] = host(self) - alpha * host(other)
    return out


@kernel("max.dim_max")
def max_dim(self, dim, keepdim=False, *, max, max_values):
    max.raw[...] = self.raw.max(dim, keepdims=keepdim)
    max_values.raw[...] = self.raw.argmax(dim, keepdims=keepdim)
    return max, max_values


@kernel("mm")
def mm(self, mat2):
    return NpyTensor(self.raw @ mat2.raw, self.dtype)


ask("add", lambda: answered(lambda: a + b))
ask("add with alpha", lambda: answered(lambda: torch.add(a, b, alpha=2)))
ask("add a number", lambda: answered(lambda: a + 1))
ask("mul", lambda: answered(lambda: a * b))
ask("sum", lambda: answered(lambda: a.sum()))
ask("item", lambda: answered(lambda: a.sum().item()))
ask("float", lambda: float(a.sum()))
ask("tolist", lambda: answered(lambda: a.tolist()))
ask("sub by out", lambda: answered(lambda: a - b))
ask("sub in place", lambda: answered(lambda: a.clone().sub_(b)))
ask("sub out=", lambda: answered(lambda: torch.sub(a, b, out=torch.empty(2, 2, device="npy"))))
ask("max of a dim", lambda: answered(lambda: tuple(a.max(1))))
ask("max is named", lambda: type(a.max(0)).__name__)
ask("ones", lambda: answered(lambda: torch.ones(2, device="npy")))
ask("full", lambda: answered(lambda: torch.full((2,), 3.0, device="npy")))
ask("ones_like", lambda: answered(lambda: torch.ones_like(a)))
ask("new_full", lambda: answered(lambda: a.new_full((1,), 2.0)))
ask("zeros need zero_", lambda: torch.zeros(2, device="npy"))
ask("empty_like", lambda: list(torch.empty_like(a).shape))
ask("select", lambda: answered(lambda: a[1]))
ask("column", lambda: answered(lambda: a[:, 1]))
ask("transpose", lambda: answered(lambda: a.t()))
ask("reshape", lambda: answered(lambda: a.reshape(4)))
ask("flatten", lambda: answered(lambda: a.flatten()))
ask("expand", lambda: answered(lambda: a[0].expand(2, 2)))
ask("unsqueeze", lambda: list(a.unsqueeze(0).shape))
ask("split", lambda: answered(lambda: a.split(1)))
ask("unbind", lambda: answered(lambda: a.unbind()))
ask("clone", lambda: answered(lambda: a.clone()))
ask("copy_", lambda: answered(lambda: torch.empty(2, 2, device="npy").copy_(b)))
ask("to the host", lambda: answered(lambda: list(host(b).shape)))
ask("cpu", lambda: answered(lambda: torch.Tensor.tolist(a.cpu())))
ask("double", lambda: answered(lambda: a.double()))
ask("to itself", lambda: a.to("npy") is a)
ask("to a number", lambda: torch.ones(1).to(0).device)
ask("npy()", lambda: answered(lambda: torch.ones(1).npy()))
ask("detach", lambda: answered(lambda: a.detach()))
ask("mm", lambda: answered(lambda: a @ b))
ask("mixed devices", lambda: a - torch.ones(2, 2))
ask("numpy", lambda: a.numpy())
ask("op object", lambda: torch.ops.aten.add.Tensor(a, b))
ask("default device", lambda: [torch.set_default_device("npy"), torch.empty(2).device, torch.set_default_device("cpu")])


def inside():
    with torch.device("npy"):
        return torch.empty(3).device


ask("with device", inside)

# gradients


def leaf(t):
    return t.clone().requires_grad_()


def gradients(function, *tensors):
    leaves = [leaf(t) for t in tensors]
    function(*leaves).backward()
    return [t.grad for t in leaves]


ask("grad of add", lambda: gradients(lambda x, y: (x + y).sum(), a, b))
ask("grad of mul", lambda: gradients(lambda x, y: (x * y).sum(), a, b))
ask("grad through views", lambda: gradients(lambda x: x.reshape(4).sum(), a))
ask("grad function", lambda: (lambda x: list(torch.autograd.grad((x * 2).sum(), [x])))(leaf(a)))
ask("no_grad", lambda: [torch.no_grad()(lambda: (leaf(a) + b).requires_grad)(), (leaf(a) + b).requires_grad])


def accumulated():
    x = leaf(a)
    for _ in range(2):
        (x + b).sum().backward()
    return x.grad


ask("accumulated", accumulated)
ask("given gradient", lambda: (lambda x: [(x + b).backward(b), x.grad][1])(leaf(a)))


def hooked():
    x, seen = leaf(a), []
    x.register_hook(lambda g: seen.append(type(g).__name__))
    (x + b).sum().backward()
    return seen


ask("hook", hooked)


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + x

    @staticmethod
    def backward(ctx, g):
        return g * 3


ask("a function of its own", lambda: gradients(lambda x: Triple.apply(x).sum(), a))


class OwnRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten.relu(x)

    @staticmethod
    def backward(ctx, g):
        return g * 7


library.impl("relu", lambda self: OwnRelu.apply(self), "AutogradPrivateUse1")
library.impl("relu", lambda self: NpyTensor(np.maximum(self.raw, 0), self.dtype), "PrivateUse1")
ask("autograd's key", lambda: [torch.relu(b), *gradients(lambda x: torch.relu(x).sum(), b)])
library.impl("linear", lambda x, w, b=None: NpyTensor(x.raw @ w.raw.T, x.dtype), "PrivateUse1")
ask("a composite's kernel", lambda: torch.nn.functional.linear(a, b))
ask("its kernels", lambda: [torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{n}", "PrivateUse1")
                            for n in ("relu", "view", "add.Tensor", "cosh")])

# keys that pass on, and keys that are refused
library.impl("cos", torch.library.fallthrough_kernel, "PrivateUse1")
ask("passes on", lambda: a.cos())
ask("no such key", lambda: library.impl("exp", fill, "PrivateUse9"))
other = torch.library.Library("aten", "IMPL")
ask("other library", lambda: other.impl("view", lambda s, n: NpyTensor(s.raw.reshape(n), s.dtype), "PrivateUse1"))

# custom ops


@torch.library.custom_op("road::twice", mutates_args=(), device_types="cpu")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


ask("custom op without a kernel", lambda: twice(a))


@twice.register_kernel("npy")
def _(x):
    return NpyTensor(x.raw * 2, x.dtype)


@torch.library.custom_op("road::thrice", mutates_args=(), device_types=["cpu", "npy"])
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("road::anywhere", mutates_args=())
def anywhere(x: torch.Tensor) -> torch.Tensor:
    return x * 4


defined = torch.library.Library("road_defined", "DEF")
defined.define("plus(Tensor x) -> Tensor")
ask("defined without a kernel", lambda: torch.ops.road_defined.plus(a))
defined.impl("plus", lambda x: NpyTensor(x.raw + 10, x.dtype), "PrivateUse1")
ask("custom op", lambda: [twice(a), twice(torch.ones(1))])
ask("custom op of types", lambda: [thrice(a), thrice(torch.ones(1))])
ask("custom op of all", lambda: anywhere(a))
ask("defined", lambda: torch.ops.road_defined.plus(a))
twice.register_autograd(lambda ctx, g: g * 2)
ask("custom op's gradient", lambda: gradients(lambda x: twice(x).sum(), a))

# mixed precision


def lower_mm(x, y):
    CALLS.append("autocast mm")
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
        return torch.mm(x.to(torch.float16), y.to(torch.float16))


library.impl("mm", lower_mm, "AutocastPrivateUse1")


def in_autocast(**options):
    with torch.autocast("npy", **options):
        return [torch.mm(a, b), torch.is_autocast_enabled("npy"), torch.get_autocast_dtype("npy")]


ask("autocast", lambda: answered(in_autocast))
ask("autocast off", lambda: answered(lambda: in_autocast(enabled=False)))
ask("autocast of another type", lambda: answered(lambda: in_autocast(dtype=torch.bfloat16)))
ask("outside autocast", lambda: answered(lambda: torch.mm(a, b)))
ask("autocast available", lambda: torch.amp.is_autocast_available("npy"))
ask("scaler", lambda: (lambda s: [s.is_enabled(), s.get_scale()])(torch.amp.GradScaler("npy")))
ask("scaled", lambda: torch.amp.GradScaler("npy", init_scale=4.0).scale(torch.ones(1, device="npy")))

# numbers drawn
ask("seed", lambda: [torch.manual_seed(5).initial_seed(), SEEDS[-1]])


def forked():
    with torch.random.fork_rng(device_type="npy"):
        torch.npy.state = torch.npy.state + 1
        inner = torch.npy.state.tolist()
    return [inner, torch.npy.state.tolist()]


ask("fork", forked)
ask("generator", lambda: torch.Generator(device="npy"))

# the accelerator
ask("accelerator", lambda: [torch.accelerator.current_accelerator(), torch.accelerator.is_available(),
                            torch.accelerator.device_count(), torch.accelerator.current_device_index()])
ask("synchronize", lambda: torch.accelerator.synchronize())
ask("set device", lambda: torch.accelerator.set_device_index(0))
ask("module of the accelerator", lambda: torch.get_device_module() is torch.npy)
ask("bare number", lambda: torch.device(0))
ask("in the core", torch._C._get_accelerator)
ask("hook again", lambda: torch._C._acc.register_python_privateuseone_hook(
    torch.utils.backend_registration._DummyPrivateUse1Hook()))
ask("guard again", lambda: torch._C._acc.register_python_privateuseone_device_guard(
    torch.utils.backend_registration._DummyDeviceGuard()))
ask("set up again", lambda: torch.utils.backend_registration._setup_privateuseone_for_python_backend("npy"))
ask("made empty", lambda: (lambda t: [list(t.shape), t.stride(), t.dtype, t.device, type(t).__name__])(
    torch._C._acc.create_empty_tensor((2, 3), torch.int64)))
ask("made of a number", lambda: torch._C._acc.create_empty_tensor(2, torch.int64))
ask("made of a word", lambda: torch._C._acc.create_empty_tensor((2,), "float32"))

# files and copies


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False, **options)


ask("deepcopy", lambda: copy.deepcopy(a))
ask("tag", lambda: torch.serialization.location_tag(a.untyped_storage()))
places = []


def place(storage, location):
    places.append(location)
    return storage if location.startswith("npy") else None


torch.serialization.register_package(5, lambda s: "npy-own" if s.device.type == "npy" else None, place)
ask("own tag", lambda: torch.serialization.location_tag(a.untyped_storage()))
ask("own place", lambda: [saved(torch.ones(2), map_location="npy").tolist(), places])

# others that are told
from torch._dynamo.device_interface import (  # noqa: E402
    DeviceInterface,
    get_interface_for_device,
    register_interface_for_device,
)
from torch._inductor.codegen.common import get_scheduling_for_device, register_backend_for_device  # noqa: E402


class Interface(DeviceInterface):
    @staticmethod
    def is_available():
        return True


ask("no interface", lambda: get_interface_for_device("npy"))
register_interface_for_device("npy", Interface)
ask("interface", lambda: [get_interface_for_device(d) is Interface for d in ("npy", torch.device("npy"))])
register_backend_for_device("npy", NpyTensor, Interface)
ask("scheduling", lambda: get_scheduling_for_device("npy") is NpyTensor)
if torch.distributed.is_available():
    backend = torch.distributed.Backend
    backend.register_backend("npyccl", lambda store, rank, size, timeout: None, devices=["npy"])
    ask("collectives", lambda: [backend.NPYCCL, backend.backend_capability["npyccl"],
                                backend.default_device_backend_map["npy"]])
    ask("collectives twice", lambda: backend.register_backend("npyccl", print, devices=["npy"]))
