"""Programs of observers, fake quantizers and qconfigs, for PyTorch and for Rushlight; what they answer is stored.

`python tests/ao/observer_programs.py` (where PyTorch is installed) writes observer_answers.json.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

INF = float("inf")
OBSERVERS = (
    "MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "HistogramObserver",
)
DTYPES = "quint8 qint8 qint32 uint16 quint2x4".split()
SCHEMES = ("per_{}_affine", "per_{}_symmetric", "per_channel_affine_float_qparams")
SETTINGS: list[dict[str, Any]] = [
    {}, {"reduce_range": True}, {"quant_min": -8, "quant_max": 7}, {"quant_min": 3, "quant_max": 9},
    {"is_dynamic": True},
]
CONSTRUCTORS = (
    "default_observer default_weight_observer default_per_channel_weight_observer default_float_qparams_observer_4bit"
    " default_dynamic_quant_observer default_fixed_qparams_range_neg1to1_observer default_histogram_observer"
    " per_channel_weight_observer_range_neg_127_to_127 default_fake_quant default_weight_fake_quant"
    " default_per_channel_weight_fake_quant default_embedding_fake_quant default_dynamic_fake_quant"
    " default_fixed_qparams_range_0to1_fake_quant default_fused_act_fake_quant default_fused_per_channel_wt_fake_quant"
    " fused_wt_fake_quant_range_neg_127_to_127"
).split()
QCONFIGS = (
    "default_qconfig default_debug_qconfig default_per_channel_qconfig default_dynamic_qconfig float16_dynamic_qconfig"
    " float16_static_qconfig per_channel_dynamic_qconfig float_qparams_weight_only_qconfig default_qat_qconfig"
    " float_qparams_weight_only_qconfig_4bit default_quint8_weight_qconfig default_dynamic_qat_qconfig"
    " default_weight_only_qconfig default_activation_only_qconfig default_qat_qconfig_v2 default_reuse_input_qconfig"
    " default_symmetric_qnnpack_qconfig default_per_channel_symmetric_qnnpack_qconfig"
    " default_symmetric_qnnpack_qat_qconfig default_per_channel_symmetric_qnnpack_qat_qconfig"
    " default_embedding_qat_qconfig default_embedding_qat_qconfig_4bit"
).split()


def plain(value: Any) -> Any:
    """Tensors as their numbers, bit for bit, long ones by a digest; all else as text."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if not hasattr(value, "detach"):
        return str(value).replace("rushlight", "torch")
    numbers = value.detach().flatten().tolist()
    texts = [v.hex() if isinstance(v, float) else str(v) for v in numbers]
    texts = texts if len(texts) < 8 else [hashlib.sha256(" ".join(texts).encode()).hexdigest()[:16]]
    return [str(value.dtype).rpartition(".")[2], list(value.shape), *texts]


def answer(function: Any) -> Any:
    try:
        return plain(function())
    except Exception as error:      # noqa: BLE001 - its class is the answer
        return type(error).__name__


def batches(torch: Any, count: int = 3) -> list[Any]:
    """A few matrices whose range grows, the same everywhere."""
    steps = torch.arange(24, dtype=torch.float64)
    return [((steps * 7.3 + 3 * n) % 5.1 - 2.4).mul(n + 1).float().reshape(4, 6) for n in range(count)]


def observed(torch: Any, name: str, settings: dict[str, Any], tensors: list[Any]) -> Any:
    observer = getattr(torch.ao.quantization, name)(**settings)
    for x in tensors:
        observer(x)
    return [observer.calculate_qparams(), dict(observer.state_dict()), observer.quant_min, observer.quant_max]


def settings_of_observers(torch: Any) -> dict[str, Any]:
    found = {}
    for name in OBSERVERS:
        kind = "channel" if "PerChannel" in name else "tensor"
        for dtype in DTYPES:
            for scheme in (text.format(kind) for text in SCHEMES):
                for more in SETTINGS:
                    settings = {"dtype": getattr(torch, dtype), "qscheme": getattr(torch, scheme), **more}
                    key = f"{name} {dtype} {scheme} {' '.join(more)}"
                    found[key] = answer(lambda n=name, s=settings: observed(torch, n, s, batches(torch)))
    return found


def kinds_of_tensors(torch: Any) -> dict[str, Any]:
    x = batches(torch)[0]
    kinds = {
        "positive": [x.abs()], "zeros": [x * 0], "one number": [x * 0 + 1.5, x], "none": [], "empty": [x[:0]],
        "tiny": [x * 1e-12], "infinite": [torch.cat([x, x[:1] * INF]), x],
        "halves": [x.half(), (x * 2).half()], "doubles": [x.double(), -x.double()],
    }
    return {
        f"{name} {kind}": answer(lambda n=name, t=tensors: observed(torch, n, {}, t))
        for name in OBSERVERS for kind, tensors in kinds.items()
    }


def searches(torch: Any) -> dict[str, Any]:
    """Histograms whose best range is narrower than what was seen; counts in sixteenths, sums that round."""
    found = {}
    for bins in (128, 2048):
        for count in (1, 4):
            steps = torch.arange(20000, dtype=torch.float64)
            tensors = [((steps * 0.61803398875) % 1 - 0.5).mul(2.2).pow(7).mul(n + 1.3).float() for n in range(count)]
            for dtype in ("quint8", "qint8"):
                settings = {"bins": bins, "dtype": getattr(torch, dtype)}
                found[f"{bins} {count} {dtype}"] = plain(observed(torch, "HistogramObserver", settings, tensors)[0])
    return found


def sums(torch: Any) -> dict[str, Any]:
    """What the search compares: sums of float32 in PyTorch's order, on which their last bits depend."""
    total = getattr(torch.ao.quantization.observer, "_total", lambda values: values.sum().item())
    found = {}
    for count in (3, 8, 31, 100, 128, 1000, 2048, 20000):
        places = torch.arange(count, dtype=torch.float64)
        values = ((places * places * 0.61803398875) % 1).pow(5).mul(97.3).float()
        found[str(count)] = total(values).hex()
    return found


def trained(torch: Any, make: Any) -> Any:
    """What a constructor makes: its text, what it does to three tensors and their gradients, its state, loaded too."""
    module, found = make(), [str(make)]
    for x in batches(torch):
        x.requires_grad_()
        y = module(x)
        y.backward(torch.linspace(-1, 1, 24).reshape(4, 6))
        found += [y, x.grad]
    other = make()
    other.load_state_dict(module.state_dict())
    module.apply(torch.ao.quantization.disable_observer)
    module.apply(torch.ao.quantization.disable_fake_quant)
    return [found, str(module), dict(other.state_dict()), module(batches(torch)[0] * 9), module.state_dict()._metadata]


def constructors(torch: Any) -> dict[str, Any]:
    return {n: answer(lambda n=n: trained(torch, getattr(torch.ao.quantization, n))) for n in CONSTRUCTORS}


def qconfigs(torch: Any) -> dict[str, Any]:
    q = torch.ao.quantization
    made = {n: getattr(q.qconfig, n) for n in QCONFIGS}
    found: dict[str, Any] = {n: [str(c), [str(part()) for part in c], [q.qconfig_equals(c, d) for d in made.values()]]
                             for n, c in made.items()}
    for engine in ("x86", "fbgemm", "qnnpack", "onednn", "cudnn"):
        for version in (0, 1, 2):
            for get in (q.get_default_qconfig, q.get_default_qat_qconfig):
                found[f"{get.__name__} {engine} {version}"] = answer(lambda g=get, e=engine, v=version: str(g(e, v)))
    found["instance"] = answer(lambda: q.QConfig(q.MinMaxObserver(), q.MinMaxObserver))
    return plain(found)


PROGRAMS = {f.__name__: f for f in (settings_of_observers, kinds_of_tensors, searches, sums, constructors, qconfigs)}
STORED = Path(__file__).with_name("observer_answers.json")


def run(torch: Any, name: str) -> Any:
    """A program's answers, as JSON holds them; those of the sweep as digests, a line each being too much to store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = PROGRAMS[name](torch)
    return {k: hashlib.sha256(json.dumps(v).encode()).hexdigest()[:12] for k, v in answers.items()}


def write() -> None:
    import torch

    rows = [f"{json.dumps(name)}: {json.dumps(run(torch, name))}" for name in PROGRAMS]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    write()
