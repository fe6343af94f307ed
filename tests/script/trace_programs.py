"""Programs to trace: functions and modules with example inputs. Whoever loads this file puts `torch`, `nn` and `F` in:
they are ours, or PyTorch's."""
# ruff: noqa: F821, F841, E501, RUF059

from __future__ import annotations

from typing import NamedTuple

PROGRAMS = {}


def numbers(*shape):
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(float(count)) * 7 % 11) - 5).reshape(shape) / 4


X, Y, SQUARE, IMAGE = numbers(2, 3), numbers(2, 3) + 1, numbers(3, 3), numbers(2, 3, 8, 8)
IDS = torch.arange(6).reshape(2, 3)


def program(*inputs, others=(), **options):
    def add(made):
        PROGRAMS[made.__name__] = (made, inputs, others, options)
        return made
    return add


@program(X, Y)
def arithmetic(x, y):
    return (x + y) * 2 - y / 3 + 1.5 * x ** 2 - (1 - x) // y % 2


@program(X, Y)
def reversed_numbers(x, y):
    return 2 / (x + 4) + 2 ** x + (3 - y) + abs(-x)


@program(X, Y)
def comparisons(x, y):
    return (x > y) & (x <= 1) | (y == 2) ^ ~(x != 0), torch.where(x > 0, x, y), x.masked_fill(x < 0, 0.5)


@program(X)
def names_of_variables(x):
    first = torch.relu(x)
    second = F.relu(first)
    third = second.sigmoid()
    return F.softmax(third, dim=-1)


@program(X, others=[(numbers(5, 3),)])
def shapes_in_views(x):
    batch = x.size(0)
    flat = x.view(batch, -1)
    return flat.reshape(batch * flat.shape[1]), x.shape[0] * x.new_ones(2)


@program(X, others=[(numbers(5, 4),)])
def shape_arithmetic(x):
    half = x.size(1) // 2 + 1
    return x.expand(3, x.size(0), x.size(1)).transpose(0, 1).flatten(1) * (x.size(-1) ** -0.5), x[:, :half]


@program(X)
def in_place(x):
    y = x.clone()
    y.add_(1)
    y *= 2
    y[0] = 3
    y[:, 1] = x[:, 2]
    y[1, 2] += 5
    return y.clamp_(min=0)


@program(X)
def index_reads(x):
    return x[0], x[:, 1:], x[..., None], x[1, ::2], x[-1][0], x[:, [0, 2]], x[x > 0], x[None, 0:1]


@program(numbers(4, 5), torch.tensor([0, 2]), others=[(numbers(3, 6), torch.tensor([1, 1, 0]))])
def index_with_tensors(x, at):
    y = x.clone()
    y[at] = 0.0
    y[:, at] = x[:, at] * 2
    y[y < -1] = 7
    return x[at], x[at, 1:3], x[:, at], y


@program(numbers(4, 6))
def splits(x):
    a, b = x.chunk(2, dim=1)
    c, d = x.split([1, 3])
    e, f, g, h = x.unbind(0)
    return a + b, d, e * h, x.split(2)[1], torch.tensor_split(x, 2)[0]


@program(X)
def reductions(x):
    values, at = x.max(dim=1)
    return x.sum(), x.mean(1), x.sum((0, 1), keepdim=True), values, at, x.std(), x.amax(0), x.norm(), x.argmax(-1), x.var(1)


@program(X)
def conversions(x):
    return x.double(), x.to(torch.int64), x.float(), x.to(x.dtype), x.long().bool(), x.half().type_as(x), x.int().to(x)


@program(X)
def softmaxes(x):
    return F.softmax(x, 1), F.log_softmax(x, dim=-1), x.softmax(0), torch.softmax(x, 1, dtype=torch.float64), F.softmin(x, dim=1), F.normalize(x, dim=1), x.logsumexp(1)


@program(X, torch.tensor([2, 0]))
def losses(x, at):
    y = torch.sigmoid(x)
    return F.cross_entropy(x, at), F.nll_loss(F.log_softmax(x, 1), at), F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.binary_cross_entropy(y, y), F.binary_cross_entropy_with_logits(x, y), F.smooth_l1_loss(x, y), F.kl_div(x, y, reduction="batchmean"), F.huber_loss(x, y), F.cosine_similarity(x, y), F.cross_entropy(x, at, label_smoothing=0.1, reduction="none")


@program(IMAGE, others=[(numbers(1, 3, 6, 6),)])
def pools(x):
    return F.max_pool2d(x, 2), F.avg_pool2d(x, 3, stride=1, padding=1), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (2, None)), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.adaptive_max_pool2d(x, 2), F.max_pool2d(x, 2, return_indices=True)[1]


@program(IMAGE, others=[(numbers(1, 3, 4, 6),)])
def resizing(x):
    return F.interpolate(x, scale_factor=2), F.interpolate(x, size=(4, 4), mode="bilinear", align_corners=False), F.pad(x, (1, 1)), F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pad(x, (1, 1), value=2.0), F.pixel_shuffle(numbers(1, 4, 2, 2), 2), F.unfold(x, 2)


@program(numbers(2, 4, 8), others=[(numbers(3, 4, 8),)])
def norms(x):
    return F.layer_norm(x, (8,)), F.group_norm(x, 2), F.instance_norm(x), F.batch_norm(x, torch.zeros(4), torch.ones(4)), F.rms_norm(x, (8,))


@program(X, strict=False)
def dict_result(x):
    return {"sum": x + 1, "product": x * 2}

class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@program(X)
def nested_result(x):
    return x, (x + 1, (x * 2,)), x - 1


@program({"a": X, "b": Y})
def dict_input(given):
    return given["a"] - given["b"]


@program((X, Y), X)
def tuple_input(pair, z):
    a, b = pair
    return a * b + z, pair


@program(X)
def frozen_branch(x):
    return x + 1 if x.sum() > 0 else x - 1


@program(X)
def frozen_numbers(x):
    return x * float(x.max()), x + int(x.sum().abs()), x * x.min().item(), x + len(x), x * torch.tensor(x.mean().item())


@program(X)
def loops(x):
    total = torch.zeros(3)
    for row in x:
        total = total + row
    for k in range(x.shape[0]):
        total += x[k]
    return total

CONSTANT = numbers(2, 3)


@program(X)
def captured(x):
    return x + CONSTANT, x + torch.tensor([1.0, 2.0, 3.0]), x * torch.tensor(2)


@program(X, check_trace=False)
def random_ops(x):
    return torch.rand(2, 3) + x, torch.randn_like(x), F.dropout(x, 0.5, True), torch.bernoulli(torch.full((2,), 0.5)), x.clone().uniform_(0, 1)


@program(X)
def unused_work(x):
    y = x * 3
    y.add_(1)
    z = x.exp()
    return x + 1


@program(X)
def views_written(x):
    base = torch.zeros(4, 3)
    part = base[1:3]
    part.copy_(x)
    base.view(-1)[0] = 9
    base[0, 1:].fill_(2)
    return base, part


@program(numbers(2, 5, 6), others=[(numbers(3, 7, 6),)])
def heads(x):
    batch, length, width = x.size()
    q = x.view(batch, length, 2, width // 2).transpose(1, 2)
    weights = torch.softmax(q @ q.transpose(-2, -1) / (width // 2) ** 0.5, dim=-1)
    return (weights @ q).transpose(1, 2).contiguous().view(batch, length, width)

@torch.jit.script
def scripted_step(x):
    if bool(x.sum() > 0):
        return x + 1
    return x - 1


@program(X, others=[(-Y,)])
def scripted_call(x):
    return scripted_step(x) * 2


@program(X)
def autocasts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    return y.float()


# --- modules

def seeded(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(numbers(*p.shape) / 4)
    return module


def model(*inputs, others=(), training=False, **options):
    def add(make):
        PROGRAMS[make.__name__] = (lambda: seeded(make()).train(training), inputs, others, {"model": True, **options})
        return make
    return add


@model(X, others=[(numbers(5, 3),)])
def mlp():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2), nn.Softmax(-1))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, x):
        y = self.body(x)
        y = y * self.scale + self.shift
        return F.relu(y), self.body[0](x)


@model(X, others=[(numbers(5, 3),)])
def net():
    return Net()


@model(IMAGE, others=[(numbers(1, 3, 8, 8),)])
def convnet():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


@model(IMAGE, training=True)
def batch_norm_training():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2))


@model(numbers(5, 2, 3), others=[(numbers(7, 1, 3),)])
def lstm():
    return nn.LSTM(3, 4, num_layers=2)


@model(X)
def lstm_cell():
    return nn.LSTMCell(3, 4)

class Block(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.heads = heads

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


@model(numbers(2, 4, 8), others=[(numbers(3, 5, 8),)])
def transformer():
    return nn.Sequential(Block(), Block(), nn.LayerNorm(8))

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(3, 3)
        self.rows = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.table = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sigmoid()})

    def forward(self, x, y):
        for _ in range(2):
            x = self.step(x)
        for row in self.rows:
            x = row(x)
        return self.table["a"](x), self.table["b"](y)


@model(X, Y)
def shared():
    return Shared()

class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = PairOut()
        self.dicts = DictOut()

    def forward(self, x):
        a, b = self.pair(x)
        return self.dicts({"a": a, "b": b})["sum"] + self.pair(b)[0]

class PairOut(nn.Module):
    def forward(self, x):
        return x + 1, x * 2

class DictOut(nn.Module):
    def forward(self, given):
        return {"sum": given["a"] + given["b"]}


@model(X)
def several_results():
    return Several()

class Outside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inside(self)
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        y = x * 2
        return self.inner(x, lambda z: z + y)

class Inside(nn.Module):
    def __init__(self, outside):
        super().__init__()
        self.outside = [outside]

    def forward(self, x, add):
        return add(x) * self.outside[0].weight


@model(X)
def closed_over():
    return Outside()

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x + self.count


@model(X, check_trace=False)
def counter():
    return Counter()

class WithScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(nn.Linear(3, 3))

    def forward(self, x):
        return self.part(x) + scripted_step(x)


@model(X)
def scripted_inside():
    return WithScript()

