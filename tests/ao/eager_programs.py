"""Programs of eager quantization that run on PyTorch and on Rushlight alike: each takes the library and leaves numbers,
texts and names that JSON can hold. `out` marks results of integers, which may be a step apart where scales are."""

from __future__ import annotations

import io
import re
import warnings

_FLOAT = re.compile(r"\d+\.\d{5,}(?:e-?\d+)?")


def text(module):
    """[a module's text without long fractions, the fractions]."""
    shown = repr(module).replace("rushlight.", "torch.")
    return [_FLOAT.sub("#", shown), [float(number) for number in _FLOAT.findall(shown)]]


def state(torch, module):
    """Names, dtypes, sizes and sums of a state."""
    found = {}
    for name, value in module.state_dict().items():
        if isinstance(value, torch.Tensor) and value.is_quantized:
            found[name] = [list(value.shape), int(value.int_repr().long().sum())]
        elif isinstance(value, torch.Tensor):
            found[name] = [list(value.shape), str(value.dtype).partition(".")[2]]
        else:
            found[name] = type(value).__name__
    return found


def numbers(result):
    parts = result if isinstance(result, tuple | list) else [result]
    return [float(x) for part in parts for x in (numbers(part) if isinstance(part, tuple | list) else
                                                 part.detach().flatten()[:6].tolist())]


def draw(torch, *shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fill(torch, module):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
        for name, buffer in module.named_buffers():
            if "running_var" in name:
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
            elif "running_mean" in name:
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.1)
    return module


CHAINS = [["conv1", "bn1", "relu1"], ["conv2", "bn2"], ["fc1", "relu2"]]


def network(torch):
    nn, tq = torch.nn, torch.ao.quantization

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.conv1, self.bn1, self.relu1 = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()
            self.conv2, self.bn2 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
            self.ff, self.drop = nn.quantized.FloatFunctional(), nn.Dropout(0.0)
            self.fc1, self.relu2, self.fc2 = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)

        def forward(self, x):
            x = self.relu1(self.bn1(self.conv1(self.quant(x))))
            x = self.ff.add(x, self.bn2(self.conv2(x))).mean((2, 3))
            return self.dequant(self.fc2(self.drop(self.relu2(self.fc1(x)))))

    return fill(torch, Net())


def batches(torch):
    return [draw(torch, 4, 3, 8, 8, seed=seed) for seed in range(3)]


def converted(torch, backend):
    tq = torch.ao.quantization
    model = tq.fuse_modules(network(torch).eval(), CHAINS)
    model.qconfig = tq.get_default_qconfig(backend)
    prepared = tq.prepare(model)
    for x in batches(torch):
        prepared(x)
    return prepared, tq.convert(prepared)


def static_x86(torch):
    prepared, _ = converted(torch, "x86")
    seen = []
    prepared.fc2.register_forward_hook(lambda module, x, y: seen.append(y.is_quantized))
    model = torch.ao.quantization.convert(prepared)
    out = numbers(model(batches(torch)[0]))
    left = [name for name, part in model.named_modules() if hasattr(part, "qconfig") or "observer" in repr(part)]
    hooks = [len(model.fc2._forward_hooks), len(model.fc1._forward_hooks), seen, left]
    return {
        "prepared": list(prepared.state_dict()), "text": text(model), "state": state(torch, model), "out": out,
        "hooks": hooks,
    }


def static_qnnpack(torch):
    _, model = converted(torch, "qnnpack")
    return {"text": text(model), "state": state(torch, model), "out": numbers(model(batches(torch)[0]))}


def trained(torch):
    tq = torch.ao.quantization
    model = tq.fuse_modules_qat(network(torch).train(), CHAINS)
    model.qconfig = tq.get_default_qat_qconfig("x86")
    prepared = tq.prepare_qat(model)
    optimizer, losses = torch.optim.SGD(prepared.parameters(), lr=0.05), []
    for step, x in enumerate(batches(torch)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(prepared(x), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        if step == 1:
            prepared.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
    final = tq.convert(prepared.eval())
    return {
        "losses": losses, "prepared": text(prepared)[0], "names": list(prepared.state_dict()), "text": text(final),
        "out": numbers(final(batches(torch)[0])), "float": text(prepared.conv1.to_float())[0],
    }


def recurrent(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.lstm = nn.Linear(8, 8), nn.LSTM(8, 4, bidirectional=True)
            self.gru, self.cell, self.step = nn.GRU(8, 4), nn.LSTMCell(4, 4), nn.RNNCell(4, 4)
            self.last = nn.GRUCell(4, 4)

        def forward(self, x):
            x = self.gru(self.lstm(self.linear(x))[0])[0]
            return self.last(self.step(self.cell(x[0])[0]))

    return fill(torch, Net())


def dynamic(torch):
    found, x = {}, draw(torch, 3, 2, 8)
    for dtype in (torch.qint8, torch.float16):
        model = torch.ao.quantization.quantize_dynamic(recurrent(torch), dtype=dtype)
        found[str(dtype).partition(".")[2]] = {
            "text": text(model), "names": list(model.state_dict()), "floats": numbers([model(x), model.linear(x)]),
            "weights": sorted(model.lstm.get_weight()),
        }
    return found


def tables(torch):
    nn, quantize = torch.nn, torch.ao.quantization.quantize_dynamic
    found = {}
    rows, bags = torch.tensor([1, 2, 5]), torch.tensor([0, 2])
    for dtype in (torch.quint8, torch.quint4x2):
        model = fill(torch, nn.Sequential(nn.EmbeddingBag(6, 8, mode="sum"), nn.Embedding(6, 8)))
        model = quantize(model, dtype=dtype)
        found[str(dtype).partition(".")[2]] = {
            "text": text(model), "names": list(model.state_dict()),
            "floats": numbers([model[0](rows, bags), model[1](rows)]),
        }
    return found


def layers(torch):
    """Layers of integers, one after the other."""
    nn, tq, nni = torch.nn, torch.ao.quantization, torch.ao.nn.intrinsic
    model = tq.QuantWrapper(fill(torch, nn.Sequential(
        nn.Conv1d(4, 6, 3, padding=1, padding_mode="reflect"), nn.Hardswish(), nn.GroupNorm(2, 6), nn.LeakyReLU(0.2),
        nn.InstanceNorm1d(6, affine=True), nn.ELU(0.7), nn.ReLU6(), nn.Unflatten(2, (3, 3)),
        nni.BNReLU2d(nn.BatchNorm2d(6), nn.ReLU()), nni.ConvReLU2d(nn.Conv2d(6, 4, 2), nn.ReLU()), nn.Flatten(),
        nni.LinearReLU(nn.Linear(16, 3), nn.ReLU()),
    ))).eval()
    model.qconfig = tq.default_qconfig
    prepared = tq.prepare(model)
    x = draw(torch, 2, 4, 9)
    prepared(x)
    final = tq.convert(prepared)
    return {"text": text(final), "state": state(torch, final), "out": numbers(final(x))}


def observed(torch):
    """Attention and recurrence that are rewritten before they are observed."""
    nn, tq = torch.nn, torch.ao.quantization

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.lstm, self.attention = nn.LSTM(8, 4), nn.MultiheadAttention(4, 2)

        def forward(self, x):
            x, _ = self.lstm(self.quant(x))
            return self.dequant(self.attention(x, x, x)[0])

    model, x = fill(torch, Net()).eval(), draw(torch, 3, 2, 8)
    model.qconfig = tq.default_qconfig
    prepared = tq.prepare(model)
    prepared(x)
    final = tq.convert(prepared)
    return {"text": text(final), "names": list(final.state_dict()), "out": numbers(final(x))}


def reference(torch):
    nn, tq = torch.nn, torch.ao.quantization
    model = fill(torch, nn.Sequential(nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 3, 2), nn.Flatten(), nn.Linear(75, 3)))
    model.qconfig = tq.default_qconfig
    prepared, x = tq.prepare(model.eval()), draw(torch, 1, 3, 6, 6)
    prepared(x)
    final = tq.convert(prepared, is_reference=True)
    state_dict = final.state_dict()
    again = tq.convert(prepared, is_reference=True).load_state_dict(state_dict)
    return {"text": text(final)[0], "names": list(state_dict), "floats": numbers(final(x)), "loaded": str(again)}


def mappings(torch):
    tq = torch.ao.quantization
    tables = (
        tq.get_default_static_quant_module_mappings(), tq.get_default_qat_module_mappings(),
        tq.get_default_dynamic_quant_module_mappings(), tq.get_default_static_quant_reference_module_mappings(),
        tq.get_embedding_static_quant_module_mappings(), tq.get_default_static_sparse_quant_module_mappings(),
    )

    def place(kind):
        return f"{kind.__module__.partition('.')[2]}.{kind.__name__}"

    return [[f"{place(before)} {place(after)}" for before, after in table.items()] for table in tables]


def refusals(torch):
    """The classes of errors and warnings."""
    nn, tq, nnq = torch.nn, torch.ao.quantization, torch.ao.nn.quantized
    nni, nnqat, nnqd = torch.ao.nn.intrinsic, torch.ao.nn.qat, torch.ao.nn.quantized.dynamic
    model = tq.QuantWrapper(nn.Sequential(nn.Linear(4, 2))).eval()
    model.qconfig = tq.default_qconfig
    table = nn.Sequential(nn.Embedding(3, 2)).eval()
    table.qconfig = tq.default_qconfig
    tries = [
        lambda: tq.convert(tq.prepare(model)).module[0](torch.ones(1, 4)),
        lambda: tq.convert(tq.prepare(model)), lambda: tq.prepare(nn.Sequential(nn.Linear(2, 2))),
        lambda: tq.convert(tq.prepare(table)), lambda: tq.prepare_qat(nn.Linear(2, 2).eval()),
        lambda: tq.fuse_modules(model, ["module.0", "nothing"]), lambda: tq.fuse_modules(model, ["module.0", "quant"]),
        lambda: nnq.Linear.from_float(nn.ReLU()), lambda: nnq.Linear.from_float(nn.Linear(2, 2)),
        lambda: nnq.Conv2d(4, 8, 3, groups=3), lambda: nnq.Conv2d(4, 8, 3, padding_mode="circular"),
        lambda: nnq.Linear(2, 2, dtype=torch.quint8), lambda: nnq.FloatFunctional()(torch.ones(1)),
        lambda: nnq.LSTM.from_float(nn.LSTM(2, 2)), lambda: nnqat.Linear(2, 2),
        lambda: nnqat.Embedding(2, 2, qconfig=tq.default_qconfig),
        lambda: nni.ConvReLU2d(nn.Conv1d(2, 2, 1), nn.ReLU()),
        lambda: nnqd.LSTM(4, 3)(torch.ones(2, 1, 5)), lambda: nnqd.GRUCell(4, 3)(torch.ones(2, 4), torch.ones(1, 3)),
        lambda: tq.quantize_dynamic(nn.Sequential(nn.LSTM(2, 2, bias=False))),
        lambda: tq.quantize_dynamic(nn.Linear(2, 2), dtype=torch.int8),
        lambda: tq.get_static_quant_module_class(nn.Softplus),
    ]
    found = []
    for attempt in tries:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                attempt()
                raised = ""
            except Exception as error:
                raised = type(error).__name__
        found.append([raised, sorted({entry.category.__name__ for entry in seen})])
    return found


PROGRAMS = {
    program.__name__: program
    for program in (
        static_x86, static_qnnpack, trained, dynamic, tables, layers, observed, reference, mappings, refusals
    )
}


def files(torch):
    """Models whose states travel: made with other numbers than the state that is loaded."""
    return {
        "static": (lambda: converted(torch, "x86")[1], batches(torch)[0]),
        "dynamic": (
            lambda: torch.ao.quantization.quantize_dynamic(recurrent(torch)), draw(torch, 3, 2, 8)
        ),
    }


def saved(torch, model):
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    return buffer.getvalue()


def loaded(torch, data, packed):
    return torch.load(io.BytesIO(data), weights_only=not packed)
