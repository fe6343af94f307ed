"""Small programs over pruning, each a function of the library that runs it; what they leave can be written as JSON."""

from __future__ import annotations

import copy
import warnings
from typing import Any

PROGRAMS: dict[str, Any] = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def plain(value: Any) -> Any:
    """Tensors as dtype, shape and rounded elements; modules as text; functions left out."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items() if not callable(each) or hasattr(each, "modules")}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "modules"):
        return str(value)
    if hasattr(value, "numel"):
        dense = value.detach().to_dense()
        sizes = "x".join(map(str, dense.shape))
        numbers = [round(x, 3) + 0.0 for x in dense.double().flatten().tolist()]
        bits = all(x in (0.0, 1.0) for x in numbers)
        kind = str(value.dtype).rpartition(".")[2]
        return f"{kind} {sizes} {''.join(str(int(x)) for x in numbers)}" if bits else [f"{kind} {sizes}", *numbers]
    return value


def refusal(function: Any) -> str:
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return "none"


def layers(t: Any) -> Any:
    t.manual_seed(0)
    nn = t.nn
    return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Sequential(nn.Linear(12, 10, bias=False), nn.Linear(10, 4)))


def _methods(t: Any) -> dict[str, Any]:
    prune = t.nn.utils.prune
    return {
        "random": lambda m: prune.random_unstructured(m, "weight", 0.4),
        "l1": lambda m: prune.l1_unstructured(m, "weight", 7),
        "channels": lambda m: prune.random_structured(m, "weight", 1, 0),
        "last": lambda m: prune.random_structured(m, "weight", 0.4, -1),
        "norm": lambda m: prune.ln_structured(m, "weight", 1, 2, 1),
        "nothing": lambda m: prune.identity(m, "weight"),
        "given": lambda m: prune.custom_from_mask(m, "weight", (t.arange(m.weight.numel()) % 3 > 0).view_as(m.weight)),
    }


@program
def masks_once_and_twice(t):
    found = {}
    for make in (lambda: t.nn.Linear(6, 5), lambda: t.nn.Conv2d(2, 3, 2)):
        for first, one in _methods(t).items():
            for second, two in _methods(t).items():
                t.manual_seed(4)
                module = make()
                one(module)
                once = plain(module.weight_mask)
                two(module)
                container = next(iter(module._forward_pre_hooks.values()))
                names = [type(method).__name__ for method in container]
                found[f"{type(module).__name__} {first} {second}"] = [once, plain(module.weight_mask), names]
    return found


@program
def state_and_removal(t):
    prune = t.nn.utils.prune
    t.manual_seed(1)
    module = t.nn.Linear(6, 5)
    prune.l1_unstructured(module, "weight", 0.3, importance_scores=t.arange(30.0).view(5, 6))
    prune.random_unstructured(module, "bias", 2)
    x = t.ones(2, 6)
    module(x).sum().backward()
    log = [plain(module.state_dict()), plain(module.weight_orig.grad), prune.is_pruned(module)]
    other = t.nn.Linear(6, 5)
    prune.identity(other, "weight")
    prune.identity(other, "bias")
    log += [str(other.load_state_dict(module.state_dict())), plain(other(x))]
    log.append(refusal(lambda: copy.deepcopy(module)))
    with t.no_grad():
        module(x)
    log.append(plain(copy.deepcopy(module)(x)))
    for name in ("weight", "bias"):
        prune.remove(module, name)
    return [*log, prune.is_pruned(module), plain(module.state_dict()), [k for k, _ in module.named_parameters()]]


@program
def several_as_one(t):
    prune = t.nn.utils.prune
    model = layers(t)
    pairs = [(model[0], "weight"), (model[2][0], "weight"), (model[0], "bias")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.3)
    log = [plain(model[0].weight_mask), plain(model[0].bias_mask)]
    prune.global_unstructured(pairs, prune.RandomUnstructured, amount=20)
    log += [plain(model[0].weight_mask), plain(model[2][0].weight_mask)]
    prune.global_unstructured(pairs, prune.L1Unstructured, importance_scores={pairs[2]: t.zeros(12)}, amount=12)
    return [*log, plain(model[0].bias_mask), [len(next(iter(m._forward_pre_hooks.values()))) for m, _ in pairs]]


@program
def refused_prunings(t):
    prune = t.nn.utils.prune
    log = []
    for amount in (-1, 1.2, -0.1, "a", None, 100):
        module = t.nn.Linear(6, 5)
        log.append([refusal(lambda: prune.l1_unstructured(module, "weight", amount)),
                    refusal(lambda: prune.random_structured(module, "weight", amount, 0)), sorted(module.state_dict())])
    pairs = [(module, "weight")]
    return [
        *log,
        refusal(lambda: prune.random_structured(module, "bias", 1, 0)),
        refusal(lambda: prune.ln_structured(module, "weight", 1, 2, 5)),
        refusal(lambda: prune.custom_from_mask(module, "weight", t.ones(2))),
        refusal(lambda: prune.l1_unstructured(module, "weight", 1, importance_scores=t.ones(2))),
        refusal(lambda: prune.remove(module, "weight")),
        refusal(lambda: prune.global_unstructured(pairs, prune.LnStructured, amount=1, n=2)),
        refusal(lambda: prune.global_unstructured(3, prune.L1Unstructured, amount=1)),
        refusal(lambda: prune.global_unstructured(pairs, prune.L1Unstructured, importance_scores=[1], amount=1)),
        refusal(prune.BasePruningMethod),
        prune.is_pruned(module),
    ]


@program
def blocks_by_norm(t):
    found = {}
    for level in (0.1, 0.5, 1.0):
        for block, zeros in (((1, 4), None), ((1, 4), 2), ((4, 1), 1), ((2, 2), None), ((3, 3), None), ((1, 1), None)):
            model = layers(t)
            sparsifier = t.ao.pruning.WeightNormSparsifier(level, block, zeros, 1 if level == 0.5 else None)
            sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
            sparsifier.step()
            found[f"{level} {block} {zeros}"] = plain(model[0].parametrizations.weight[0].mask)
    return found


@program
def a_sparsifier_from_prepare_to_squash(t):
    model = layers(t)
    sparsifier = t.ao.pruning.WeightNormSparsifier(0.6)
    sparsifier.prepare(model, None)
    sparsifier.step()
    x = t.ones(2, 8)
    log = [str(sparsifier), str(model), plain(sparsifier.state_dict()), list(model.state_dict()), plain(model(x))]
    other, twin = t.ao.pruning.WeightNormSparsifier(0.2), layers(t)
    other.prepare(twin, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.0.weight", "sparsity_level": 0.9},
                         {"tensor_fqn": "2.1.weight", "zeros_per_block": 1}])
    log.append(str(other))
    other.load_state_dict(copy.deepcopy(sparsifier.state_dict()))
    log += [str(other), plain(twin(x))]
    sparsifier.squash_mask(("sparsity_level",), {"2.0": ("zeros_per_block",)})
    return [*log, str(model), plain(model(x)), model[0].sparse_params, model[2][0].sparse_params]


@program
def near_the_diagonal(t):
    found = {}
    for nearliness in (-1, 0, 1, 2, 5, 99):
        model = layers(t)
        sparsifier = t.ao.pruning.NearlyDiagonalSparsifier(nearliness)
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
        found[str(nearliness)] = [refusal(sparsifier.step), plain(sparsifier.state_dict())]
    return found


@program
def refused_configs(t):
    pruning, model = t.ao.pruning, layers(t)
    configs = ([model[0]], [{}], [{"tensor_fqn": "9.weight"}], [{"tensor_fqn": "0.weight", "module": model[2]}],
               [{"tensor_fqn": "0.weight", "module_fqn": "1"}])
    info = pruning.get_arg_info_from_tensor_fqn(model, "2.1.weight")
    return [
        *(refusal(lambda: pruning.WeightNormSparsifier().prepare(layers(t), config)) for config in configs),
        refusal(lambda: pruning.WeightNormSparsifier(norm=3)), refusal(pruning.BaseSparsifier),
        refusal(lambda: pruning.BaseScheduler(3)), refusal(lambda: pruning.FakeSparsity(t.ones(2))(t.ones(3))),
        plain(info), pruning.module_to_fqn(model, model[2][0]), pruning.module_to_fqn(model, t.nn.ReLU()),
        plain(pruning.fqn_to_module(model, "2.1")), pruning.fqn_to_module(model, "2.8"),
    ]


@program
def schedules(t):
    pruning, log = t.ao.pruning, []
    for make in (
        lambda s: pruning.LambdaSL(s, lambda epoch: 0.5**epoch),
        lambda s: pruning.LambdaSL(s, [lambda epoch: epoch, lambda epoch: 1]),
        lambda s: pruning.LambdaSL(s, [lambda epoch: epoch]),
        lambda s: pruning.CubicSL(s, init_sl=[0.1, 0.2], init_t=2, delta_t=1, total_t=[5, 3], initially_zero=True),
        lambda s: pruning.CubicSL(s, init_sl=[1]),
        pruning.BaseScheduler,
    ):
        sparsifier = pruning.WeightNormSparsifier(0.7)
        sparsifier.prepare(layers(t), [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.1.weight"}])
        try:
            schedule = make(sparsifier)
        except Exception as error:
            log.append(type(error).__name__)
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(4):
                schedule.step()
                log.append(schedule.get_last_sl())
                sparsifier.step()
            schedule.get_sl()
        state = {key: value for key, value in schedule.state_dict().items() if key != "sl_lambdas"}
        log += [[w.category.__name__ for w in caught], state, str(schedule), sparsifier._step_count]
    return log


def _chains(t: Any) -> dict[str, Any]:
    nn = t.nn
    return {
        "linear": (lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 3)), (4, 5)),
        "conv": (lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 2),
                                       nn.Conv2d(4, 3, 1)), (2, 2, 8, 8)),
        "padded": (lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3, padding=1)), (2, 2, 6, 6)),
        "flat": (lambda: nn.Sequential(nn.Conv2d(2, 6, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 3)),
                 (2, 2, 6, 6)),
    }


@program
def channels_out_of_chains(t):
    pruner = t.ao.pruning._experimental.pruner
    found = {}
    for name, (make, shape) in _chains(t).items():
        for kind in (lambda: pruner.SaliencyPruner({"sparsity_level": 0.5}), lambda: pruner.FPGMPruner(0.4)):
            for prune_bias in (True, False):
                t.manual_seed(1)
                model, x, chosen = make().eval(), t.randn(shape), kind()
                rows = [n for n, m in model.named_modules() if isinstance(m, (t.nn.Linear, t.nn.Conv2d))][:-1]
                chosen.prepare(model, [{"tensor_fqn": f"{n}.weight", "prune_bias": prune_bias} for n in rows])
                chosen.step()
                masked = model(x)
                cut = chosen.prune()
                key = f"{name} {type(chosen).__name__} {prune_bias}"
                shapes = {k: list(v.shape) for k, v in cut.state_dict().items()}
                agree = bool(t.allclose(masked, cut(x), atol=1e-5))
                found[key] = [plain(chosen.state_dict()), shapes, plain(cut(x)), agree]
    return found


@program
def hidden_units_of_an_lstm(t):
    nn = t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.norm, self.linear = nn.LSTM(5, 8, 2), nn.LayerNorm(8), nn.Linear(8, 3)

        def forward(self, x):
            return self.linear(self.norm(self.lstm(x)[0]))

    t.manual_seed(1)
    model = Model()
    pruner = t.ao.pruning._experimental.pruner.LSTMSaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": f"lstm.weight_{kind}_l{i}"} for i in range(2) for kind in ("ih", "hh")])
    pruner.step()
    cut = pruner.prune()
    shapes = {k: list(v.shape) for k, v in cut.state_dict().items()}
    return [plain(pruner.state_dict()), shapes, plain(cut(t.randn(4, 2, 5)))]


@program
def data_by_itself(t):
    kind = t.ao.pruning._experimental.data_sparsifier.DataNormSparsifier
    found = {}
    for level, block, zeros, norm in ((0.3, (1, 4), None, "L1"), (0.5, (2, 2), 1, "L2"), (0.5, (1, 1), None, "L1")):
        t.manual_seed(0)
        data = [("t", t.randn(6, 8)), ("p", t.nn.Parameter(t.randn(5, 7))), ("e", t.nn.Embedding(6, 4))]
        sparsifier = kind(data, level, block, zeros, norm)
        sparsifier.step()
        twin = kind(sparsity_level=0.1)
        twin.load_state_dict(sparsifier.state_dict())
        sparsifier.squash_mask(names=["t"])
        found[f"{level} {block} {zeros} {norm}"] = [
            plain(twin.state_dict()), str(twin), plain(sparsifier.get_data("t", return_original=False)),
            refusal(lambda: sparsifier.get_data("t")), refusal(lambda: sparsifier.add_data("q", [1])),
            refusal(lambda: sparsifier.prepare(1, 2)),
        ]
    return found


@program
def activations_while_they_pass(t):
    kind = t.ao.pruning._experimental.activation_sparsifier.activation_sparsifier.ActivationSparsifier
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Conv2d(1, 4, 3), t.nn.Identity(), t.nn.Flatten(), t.nn.Linear(16, 5))
    sparsifier = kind(model, lambda a, b: a + b, lambda a: a.abs(), lambda a, least: (a > least).float(), least=0.3)
    sparsifier.register_layer(model[1], features=[0, 2], feature_dim=1)
    sparsifier.register_layer(model[3], least=0.7)
    log = [refusal(lambda: sparsifier.get_mask("1")), refusal(lambda: sparsifier.register_layer(t.nn.ReLU()))]
    x = t.randn(2, 1, 4, 4)
    model(x)
    model(x)
    sparsifier.step()
    log += [plain(sparsifier.get_mask("1")), plain(sparsifier.get_mask(layer=model[3])), str(sparsifier)]
    sparsifier.squash_mask()
    return [*log, plain(model(x)), plain(sparsifier.state_dict()["state"])]
