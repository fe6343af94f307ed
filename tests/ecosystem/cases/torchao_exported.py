"""torchao's way over exported graphs (PT2E): prepared, calibrated, converted, compiled."""

from __future__ import annotations

import logging

import torch

logging.disable(logging.WARNING)

from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

NEEDS = "torchao"
if "rushlight" not in torch.__version__:
    torch.compiler.set_stance("force_eager")      # there it takes most of a minute


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(nn.functional.relu(self.first(x)))


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.pool, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.MaxPool2d(2), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu(self.norm(self.first(x)))
        return self.head(torch.flatten(self.pool(nn.functional.relu(self.second(x) + x)), 1))


def nodes(graph_module: nn.Module) -> list[str]:
    """The graph in words, without the checks of arguments that PyTorch's has in it."""
    return [f"{n.op} {n.name} {n.target}" for n in graph_module.graph.nodes if n.name != "_guards_fn"]


def quantizer(**options: bool) -> object:
    return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config(**options))


def calibrated(net: nn.Module, x: torch.Tensor, **options: bool) -> dict:
    prepared = prepare_pt2e(torch.export.export(net.eval(), (x,)).module(), quantizer(**options))
    seen = nodes(prepared)
    for factor in (0.5, 1.0, 1.5):
        prepared(x * factor)
    converted = convert_pt2e(prepared)
    with torch.no_grad():
        compiled = torch.compile(converted)(x)
    state = {name: (str(t.dtype), tuple(t.shape)) for name, t in converted.state_dict().items()}
    return {"prepared": seen, "converted": nodes(converted), "result": converted(x), "compiled": compiled,
            "state": str(state)}


def case_layers() -> dict:
    return calibrated(Layers(), torch.randn(4, 16))


def case_layers_with_rows_as_they_come() -> dict:
    return calibrated(Layers(), torch.randn(4, 16), is_dynamic=True)


def case_pictures() -> dict:
    return calibrated(Pictures(), torch.randn(2, 3, 8, 8))
