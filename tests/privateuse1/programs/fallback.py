"""A back end whose fallback computes on the host: copied in, computed, written back in place and to out=."""

import torch
import torch.nn.functional as F
from answers import ask
from backend import CALLS, NpyTensor, answered, host, wrap
from torch.utils._pytree import tree_map

fallbacks = torch.library.Library("_", "IMPL")


def on_host(op, *args, **kwargs):
    CALLS.append(str(op))
    given, named = tree_map(host, args), tree_map(host, kwargs)
    result = op(*given, **named)
    written = {}
    for i, argument in enumerate(op._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        shown = given[i] if i < len(args) else named.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, NpyTensor):
            if value.raw.shape == tuple(shown.shape):
                value.raw[...] = shown.numpy()
            else:
                value.raw = shown.numpy()
            written[id(shown)] = value
    return tree_map(lambda r: written.get(id(r)) if id(r) in written else wrap(r) if isinstance(r, torch.Tensor) else r,
                    result)


fallbacks.fallback(on_host, "PrivateUse1")
ask("once a key", lambda: fallbacks.fallback(on_host, "PrivateUse1"))
ask("for all ops alone", lambda: torch.library.Library("aten", "IMPL").fallback(on_host, "PrivateUse1"))
a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="npy")
b = torch.tensor([[1.0, -2.0], [3.0, -4.0]]).to("npy")
i = torch.tensor([1, 0], device="npy")
QUESTIONS = """
a + b | a - b | a * b | a / b | 1 - a | a + 1 | a ** 2 | -a | a.exp() | torch.relu(b) | a @ b
a.sum() | a.sum(1) | a.mean() | a.mean(0, keepdim=True) | a.softmax(1) | a.log_softmax(0) | a.max() | tuple(a.max(1))
a.argmax() | a.prod() | a.std() | a.var(0) | a.norm() | a.cumsum(0) | tuple(a.topk(1)) | a.clamp(2, 3) | a.sigmoid()
a.clone().add_(b) | a.clone().mul_(2) | a.clone().sqrt_() | a.clone().fill_(3) | a.clone().zero_() | a.clone().copy_(b)
torch.add(a, b, out=torch.empty(2, 2, device="npy")) | torch.mm(a, b, out=torch.empty(2, 2, device="npy"))
torch.ones(2, device="npy") | torch.zeros(2, device="npy") | torch.full((2,), 3.0, device="npy")
torch.zeros_like(a) | torch.ones_like(a) | torch.full_like(a, 2) | a.new_zeros(2)
torch.linspace(0, 1, 3, device="npy")
list(torch.rand(2, device="npy").shape) | list(torch.randperm(3, device="npy").shape) | a.clone().normal_().shape
a.t() | a[0] | a[:, 1] | a.permute(1, 0) | a.unsqueeze(0) | a.unsqueeze(0).squeeze(0) | a.split(1) | a.chunk(2)
a.reshape(4) | a.t().reshape(4) | a.flatten() | a[0].expand(2, 2) | torch.cat([a, b]) | torch.stack([a, b])
a > 2 | a == b | torch.where(a > 2, a, b) | (a > 2).any() | bool((a > 2).any()) | (a > 2) & (b > 2) | a.isnan()
a.masked_fill(a > 2, 0.0) | a.index_select(0, i) | a.gather(0, i[None]) | a[a > 2] | a[i] | torch.equal(a, a)
F.linear(a, b, torch.ones(2, device="npy")) | F.layer_norm(a, (2,))[0] | F.embedding(i, a) | F.cross_entropy(a, i)
F.conv2d(torch.ones(1, 1, 3, 3, device="npy"), torch.ones(1, 1, 2, 2, device="npy")) | F.max_pool2d(a[None], 2)
F.batch_norm(a, torch.zeros(2, device="npy"), torch.ones(2, device="npy"))
F.interpolate(a[None, None], scale_factor=2.0)
torch.addmm(a, a, b) | torch.bmm(a[None], b[None]) | torch.dot(a[0], a[1]) | torch.mv(a, a[0]) | torch.outer(a[0], a[1])
torch.maximum(a, b) | a.tril() | a.flip(0) | a.repeat(1, 2) | torch.lerp(a, b, 0.5) | a.tanh() | a // 2 | a.nonzero()
a.cpu().shape | a.double() | a.to(torch.int64) | a.sum().item() | a.tolist() | a.to("npy") is a | a + torch.ones(2, 2)
a + torch.tensor(1.0) | a.scatter(0, i[None], 9.0) | a.index_add(0, i[:1], a[:1]) | torch.einsum("ij,jk->ik", a, b)
torch._foreach_add([a, b], 1.0) | a.clone().resize_(2, 2) | a.clone().set_(b)
torch.bernoulli(torch.ones(2, device="npy"))
a.detach() | list(torch.empty_like(a).shape) | torch.baddbmm(a[None], a[None], b[None]) | a.unique() | a.roll(1)
F.dropout(a, 0.5).shape | torch.multinomial(torch.ones(2, device="npy"), 1).shape
tuple(a.sort()) | a.T | [x for x in a] | 3.0 in a | bool(a) | int(a[0, 0]) | (a > 1).sum().item() | a.new_tensor([5.0])
torch.as_tensor([1.0, 2.0], device="npy") | torch.asarray([1.0, 2.0], device="npy") | torch.zeros_like(a, device="cpu")
torch.zeros_like(torch.ones(2), device="npy") | [torch.manual_seed(0), torch.rand(2, device="npy")][1] | a.argsort()
torch.tensor(2.0) * a | torch.sum(a, 0, out=torch.empty(2, device="npy")) | torch.ones(2, 2).add_(a) | a.diagonal()
F.binary_cross_entropy_with_logits(a, torch.ones(2, 2, device="npy")) | F.gelu(a) | F.group_norm(a, 1) | a.view(-1)
torch.std_mean(a) | torch.meshgrid(a[0], a[1], indexing="ij")
torch.triu_indices(2, 2, device="npy") | a.narrow(0, 0, 1)
F.softplus(a) | F.cosine_similarity(a, b) | F.one_hot(i) | F.avg_pool2d(a[None], 2) | F.adaptive_avg_pool2d(a[None], 1)
torch.cdist(a, b) | torch.linalg.norm(a) | torch.linalg.inv(a) | torch.linalg.det(a) | torch.fft.fft(a).shape
put(a, (0, 0), 9.0) | put(a, 0, b[1]) | put(a, i, b) | put(a, a > 2, 0.0)
grad(lambda w: w[0].sum()) | grad(torch.mean)
grad(lambda w: (w @ b).sum()) | grad(lambda w: F.linear(b, w).sum()) | grad(lambda w: (w ** 2).sum())
grad(lambda w: (w / b).sum()) | grad(lambda w: w.log().sum()) | grad(lambda w: w.double().sum())
grad(lambda w: (w * 2).mul_(3).sum())
grad(lambda w: torch.utils.checkpoint.checkpoint(lambda t: (t * t).sum(), w, use_reentrant=True))
steps(torch.optim.SGD) | steps(torch.optim.SGD, momentum=0.9) | steps(torch.optim.SGD, foreach=True)
steps(torch.optim.Adam) | steps(torch.optim.AdamW) | scaled() | clipped() | twice_differentiated()
from_host()
"""


def put(t, where, value):
    t = t.clone()
    t[where] = value
    return t


def grad(function):
    w = a.clone().requires_grad_()
    function(w).backward()
    return w.grad


def steps(kind, **options):
    w = torch.tensor([1.0, 2.0], device="npy").requires_grad_()
    optimizer = kind([w], lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return w


def scaled():
    w = torch.tensor([1.0, 2.0], device="npy").requires_grad_()
    optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("npy", init_scale=8.0)
    scaler.scale((w * w).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return [w, scaler.get_scale()]


def clipped():
    w = a.clone().requires_grad_()
    (w * w).sum().backward()
    return torch.nn.utils.clip_grad_norm_([w], 1.0)


def twice_differentiated():
    w = a.clone().requires_grad_()
    first = torch.autograd.grad((w * w * w).sum(), w, create_graph=True)[0]
    return torch.autograd.grad(first.sum(), w)


def from_host():
    w = torch.ones(2, requires_grad=True)
    (w.to("npy") * a[0]).sum().backward()
    return w.grad


for question in (q.strip() for line in QUESTIONS.strip().splitlines() for q in line.split(" | ")):
    ask(question, lambda text=question: eval(text))
for question in ("a + b", "a.sum()", "a.clone().add_(b)", "torch.ones(2, device='npy')", "a.softmax(1)",
                 "torch.relu(b)", "a.max(1)[0]",
                 "torch.stack([a, b])", "a.masked_fill(a > 2, 0.0)", "F.linear(a, b)", "a.sum().item()"):
    ask(f"calls of {question}", lambda text=question: answered(lambda: eval(text)))


def trained():
    """A step of a layer whose weights are leaves on the device."""
    w = torch.tensor([[1.0, 0.0], [0.5, 2.0]], device="npy").requires_grad_()
    loss = (F.linear(a, w) * b).sum()
    loss.backward()
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.5)
    return [loss, w.grad, w]


ask("a step", trained)
ask("func.grad", lambda: torch.func.grad(lambda t: (t * t).sum())(a))
ask("inference", lambda: torch.inference_mode()(lambda: a + a)())
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

SEEN = []


class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        SEEN.append(str(func))
        return func(*args, **(kwargs or {}))


def watched():
    with Watch():
        a + b
    return SEEN


ask("a mode looks on", watched)
