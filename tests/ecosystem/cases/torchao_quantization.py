"""torchao: weights of few bits, training that knows of them, optimizers whose state is of few bits, and files."""

from __future__ import annotations

import copy
import io
import logging

import torch

logging.disable(logging.WARNING)      # it says of each native library of its own that it was not loaded

from torch import nn
from torchao.optim import Adam4bit, AdamW8bit
from torchao.quantization import (
    Float8WeightOnlyConfig,
    FqnToConfig,
    Int4WeightOnlyQuantizer,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    PerAxis,
    PerGroup,
    PerTensor,
    quantize_,
    to_nf4,
)
from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

NEEDS = "torchao"
IS_SERVED = "rushlight" in torch.__version__
if not IS_SERVED:
    torch.compiler.set_stance("force_eager")      # there it takes most of a minute


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32, bias=False))


def given() -> torch.Tensor:
    return torch.linspace(-1, 1, 320).reshape(5, 64)


def quantized(config: object, dtype: torch.dtype = torch.float32) -> dict:
    """What a quantized network computes as it is, copied, read from a file in two ways, and compiled."""
    net, x = network().to(dtype), given().to(dtype)
    quantize_(net, config)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assigned, copied_into = network().to(dtype), network().to(dtype)
    assigned.load_state_dict(state, assign=True)
    quantize_(copied_into, config)
    copied_into.load_state_dict(state)
    return {
        "as it is": net(x), "copied": copy.deepcopy(net)(x), "assigned": assigned(x), "loaded": copied_into(x),
        "compiled": torch.compile(net, fullgraph=True)(x), "kind": type(net[0].weight).__name__,
        "size": len(file.getvalue()), "text": str(net[0])[:40],
    }


def case_int8_weights() -> dict:
    whole = Int8WeightOnlyConfig(granularity=PerTensor())
    return {"rows": quantized(Int8WeightOnlyConfig()), "whole": quantized(whole),
            "bfloat16": quantized(Int8WeightOnlyConfig(), torch.bfloat16)}


def case_int8_activations() -> dict:
    return {"plain": quantized(Int8DynamicActivationInt8WeightConfig())}


def case_few_bits() -> dict:
    return {str(bits): quantized(IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"),
                                                      granularity=PerGroup(32) if bits % 2 else PerAxis(0)))
            for bits in (1, 2, 3, 5, 8)}


def case_few_bits_with_activations() -> dict:
    config = Int8DynamicActivationIntxWeightConfig
    return {
        "groups": quantized(config(weight_dtype=torch.int4, weight_granularity=PerGroup(32))),
        "asymmetric": quantized(config(weight_dtype=torch.int6, weight_granularity=PerGroup(16),
                                       weight_mapping_type=MappingType.ASYMMETRIC)),
    }


def case_float8_weights() -> dict:
    return {"bfloat16": quantized(Float8WeightOnlyConfig(), torch.bfloat16)}


def case_by_name() -> dict:
    net = network()
    quantize_(net, FqnToConfig({"0": Int8WeightOnlyConfig(), "2": None}), filter_fn=None)
    return {"result": net(given()), "kept": type(net[2].weight).__name__}


def trained(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> torch.Tensor:
    generator, losses = torch.Generator().manual_seed(3), []
    for _ in range(steps):
        x, wanted = torch.randn(16, 64, generator=generator), torch.randn(16, 32, generator=generator)
        loss = nn.functional.mse_loss(net(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def case_training_that_knows() -> dict:
    results = {}
    for name, base in (("weights", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))),
                       ("both", Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4,
                                                                      weight_granularity=PerGroup(32)))):
        net = network()
        quantize_(net, QATConfig(base, step="prepare"))
        losses = trained(net, torch.optim.SGD(net.parameters(), lr=0.1))
        gradient = net[0].weight.grad
        quantize_(net, QATConfig(base, step="convert"))
        results[name] = {"losses": losses, "gradient": gradient, "converted": net(given())}
    return results


def case_training_by_parts() -> dict:
    net = network()
    activations = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(torch.int4, group_size=32)
    quantize_(net, QATConfig(activation_config=activations, weight_config=weights, step="prepare"))
    return {"losses": trained(net, torch.optim.SGD(net.parameters(), lr=0.1)), "result": net(given())}


def case_optimizers() -> dict:
    results = {}
    for kind in (AdamW8bit, Adam4bit):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32, bias=False))
        optimizer = kind(net.parameters(), lr=1e-2)
        first = trained(net, optimizer)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        other = kind(net.parameters(), lr=1e-2)
        other.load_state_dict(torch.load(file, weights_only=True))
        state = {name: type(value).__name__ for name, value in optimizer.state[net[0].weight].items()}
        results[kind.__name__] = {"first": first, "then": trained(net, other), "state": state}
    return results


def case_four_bits_packed() -> dict:
    net = Int4WeightOnlyQuantizer(groupsize=32, device="cpu").quantize(network().bfloat16())
    return {"result": net(given().bfloat16()), "packed": net[2].weight, "names": list(net.state_dict())}


def case_nf4() -> dict:
    x, weight = torch.randn(4, 64, requires_grad=True), to_nf4(torch.randn(64, 64), 64, 4)
    result = nn.functional.linear(x, weight)
    result.sum().backward()
    return {"weight": weight.get_original_weight(), "result": result, "gradient": x.grad}
