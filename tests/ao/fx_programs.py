"""Small models quantized as graphs, each a function of the library that runs it: what a user sees of every pass."""

from __future__ import annotations

import copy
import importlib
import operator
import re
import warnings
from typing import Any

PROGRAMS: dict[str, Any] = {}
PARTS = ("fx", "ao.quantization.quantize_fx", "ao.quantization.qconfig_mapping", "ao.quantization.backend_config",
         "ao.quantization.fx.custom_config", "ao.quantization.fx._equalize", "ao.nn.quantized", "ao.nn.quantizable")


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def kit(torch):
    """(quantize_fx, qconfig_mapping, qconfig) of a library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in PARTS:
            importlib.import_module(f"{torch.__name__}.{part}")
    at = torch.ao.quantization
    return at.quantize_fx, at.qconfig_mapping, at.qconfig


def described(torch, model):
    """A graph module's code, its modules' text without numbers, its state's names and kinds."""
    text = []
    for name, module in model.named_modules():
        kind = "GraphModule" if isinstance(module, torch.fx.GraphModule) else type(module).__name__
        text.append(f"{name}:{kind}")
        if name and kind == "GraphModule":
            text.append(module.code)
    state = [
        f"{key} {tuple(value.shape)} {str(value.dtype).rpartition('.')[2]}" if hasattr(value, "shape") else key
        for key, value in model.state_dict().items()
    ]
    code = "\n".join(line.rstrip() for line in model.code.strip().splitlines())
    code = code.replace("rushlight", "torch").replace("quint8, False)", "quint8, True)")     # engines differ in that
    code = re.sub(r"\d+\.\d{4,}(e-\d+)?", "#", code)       # scales, to their last digit
    return {"code": code, "modules": text, "state": state}


def numbers(torch, model):
    """Scales and zero points of a model, by name."""
    found = {}
    for name, value in model.state_dict().items():
        if ("scale" in name or "zero_point" in name) and "packed" not in name:
            found[name] = [float(x) for x in value.double().flatten()[:4]]
    return found


def passes(torch, model, inputs, mapping, *, qat=False, custom=None, convert=None, backend=None, equalize=None,
           references=True):
    """Prepare, calibrate and convert a model in every way; what each leaves."""
    fx, _, _ = kit(torch)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if qat:
            prepared = fx.prepare_qat_fx(model.train(), mapping, inputs, custom, backend)
        else:
            prepared = fx.prepare_fx(model.eval(), mapping, inputs, custom, equalize, backend)
        prepared(*inputs)
        prepared.eval()
        result = {"prepared": described(torch, prepared)}
        options = {"convert_custom_config": convert, "backend_config": backend}
        if references:
            made = fx.convert_to_reference_fx(copy.deepcopy(prepared), **options)
            result["reference"] = described(torch, made)
            result["numbers"] = numbers(torch, made)
            made = fx._convert_to_reference_decomposed_fx(copy.deepcopy(prepared), **options)
            result["decomposed"] = described(torch, made)["code"]
        result["converted"] = described(torch, fx.convert_fx(prepared, **options))
    return result


def module(torch, build, forward):
    """A module of two functions."""
    def init(self):
        torch.nn.Module.__init__(self)
        for name, part in build(torch.nn).items():
            setattr(self, name, part)

    torch.manual_seed(0)
    return type("Model", (torch.nn.Module,), {"__init__": init, "forward": forward})()


def randn(torch, *sizes):
    torch.manual_seed(1)
    return torch.randn(*sizes)


def mappings(torch):
    _, mapping, qconfig = kit(torch)
    fixed = mapping.get_default_qconfig_mapping("fbgemm").object_type_qconfigs
    static = mapping.QConfigMapping().set_global(qconfig.default_per_channel_qconfig)
    for op in (torch.nn.Sigmoid, torch.nn.Tanh, torch.sigmoid, "tanh", torch.nn.Softmax):
        static.set_object_type(op, fixed[op])
    return static


def residual(torch):
    def forward(self, x):
        y = self.bn2(self.c2(self.r(self.bn(self.c(x)))))
        y = self.r(y + x)
        z = torch.relu(torch.add(y * 2, y))
        return torch.flatten(self.p(torch.cat([z, y], 1)), 1)

    return module(torch, lambda nn: {"c": nn.Conv2d(2, 2, 3, padding=1), "bn": nn.BatchNorm2d(2), "r": nn.ReLU(),
                                     "c2": nn.Conv2d(2, 2, 1), "bn2": nn.BatchNorm2d(2), "p": nn.AvgPool2d(4)}, forward)


@program
def residual_network(torch):
    return passes(torch, residual(torch), randn(torch, 2, 2, 4, 4), mappings(torch))


@program
def residual_network_trained(torch):
    _, mapping, qconfig = kit(torch)
    qat = mapping.QConfigMapping().set_global(qconfig.default_qat_qconfig)
    return passes(torch, residual(torch), randn(torch, 2, 2, 4, 4), qat, qat=True)


@program
def sums_of_onednn(torch):
    backend = torch.ao.quantization.backend_config.get_onednn_backend_config
    return passes(torch, residual(torch), randn(torch, 2, 2, 4, 4), mappings(torch), backend=backend(),
                  references=False)


@program
def functions(torch):
    F = torch.nn.functional

    def forward(self, x):
        x = F.relu(F.linear(x, self.w, self.b))
        x = F.linear(x, self.w)
        x = F.elu(F.leaky_relu(x, 0.2)) @ x.t()
        n = x.size(0)
        return x.view(n, -1).masked_fill(x > 0, 0.0), torch.sigmoid(x).tanh(), {"a": [x * 3]}, None

    parts = {"w": torch.nn.Parameter(randn(torch, 4, 4)), "b": torch.nn.Parameter(randn(torch, 4))}
    return passes(torch, module(torch, lambda nn: parts, forward), randn(torch, 4, 4), mappings(torch))


@program
def functions_of_images(torch):
    F = torch.nn.functional

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.w, None, (1, 1), (1, 1), (1, 1), 1))
        x = F.avg_pool2d(F.hardtanh(x), 2)
        return F.interpolate(x, scale_factor=2.0).mean([2, 3])

    parts = {"w": torch.nn.Parameter(randn(torch, 2, 2, 3, 3))}
    return passes(torch, module(torch, lambda nn: parts, forward), randn(torch, 1, 2, 4, 4), mappings(torch))


def nested(torch):
    def inner(self, x):
        return torch.nn.functional.linear(torch.relu(self.l(x)), self.w) + x

    def forward(self, x):
        return self.last(self.s(self.b(self.a(x)))), self.l2(self.l2(x))

    def sub(nn):
        return module(torch, lambda nn: {"l": nn.Linear(4, 4), "w": nn.Parameter(randn(torch, 4, 4))}, inner)

    return module(torch, lambda nn: {"a": sub(nn), "b": nn.Sequential(sub(nn), nn.Tanh()), "s": nn.Softmax(1),
                                     "l2": nn.Linear(4, 4), "last": nn.Linear(4, 2)}, forward)


@program
def nested_modules(torch):
    return passes(torch, nested(torch), randn(torch, 3, 4), mappings(torch))


@program
def qconfigs_by_name_type_and_order(torch):
    _, _, qconfig = kit(torch)
    mapping = mappings(torch).set_module_name("a.l", None).set_module_name_regex("b.*", qconfig.default_qconfig)
    mapping.set_object_type(torch.nn.Softmax, None)
    mapping.set_module_name_object_type_order("", torch.nn.Linear, 1, None)
    mapping.set_module_name_object_type_order("a", operator.add, 0, None)
    return passes(torch, nested(torch), randn(torch, 3, 4), mapping)


@program
def dynamic_and_weight_only(torch):
    _, mapping, qconfig = kit(torch)

    def forward(self, x):
        y, _ = self.lstm(self.e(x))
        y = torch.nn.functional.linear(y, self.w)
        return self.r(self.l(y)), self.cell(y[0])

    model = module(torch, lambda nn: {"e": nn.Embedding(10, 4), "lstm": nn.LSTM(4, 4), "l": nn.Linear(4, 4),
                                      "r": nn.ReLU(), "cell": nn.GRUCell(4, 3),
                                      "w": nn.Parameter(randn(torch, 4, 4))}, forward)
    dynamic = mapping.QConfigMapping().set_global(qconfig.default_dynamic_qconfig)
    dynamic.set_object_type(torch.nn.Embedding, qconfig.float_qparams_weight_only_qconfig)
    return passes(torch, model, torch.tensor([[1, 2], [3, 4]]), dynamic, references=False)


def parts_of(torch):
    """Classes of a custom module: float, observed, quantized; and a module that cannot be traced."""
    nn = torch.nn

    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return self.l(x)

    class Observed(Custom):
        @classmethod
        def from_float(cls, given):
            made = cls()
            made.l, made.qconfig = given.l, given.qconfig
            return made

    class Quantized(Custom):
        @classmethod
        def from_observed(cls, given):
            assert hasattr(given, "activation_post_process")
            return cls()

    class Branching(Custom):
        def forward(self, x):
            return self.l(x) if x.sum() > 0 else x

    return Custom, Observed, Quantized, Branching


@program
def modules_left_whole(torch):
    fx, _, _ = kit(torch)
    configs = torch.ao.quantization.fx.custom_config
    custom, observed, quantized, branching = parts_of(torch)

    def make():
        def build(nn):
            inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            return {"c": custom(), "o": branching(), "s": inner, "l": nn.Linear(4, 2)}

        model = module(torch, build, lambda self, x: self.l(self.s(self.o(self.c(x)))))
        model.label = "kept"
        return model

    inputs = randn(torch, 2, 4)
    inside = configs.PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    prepare = configs.PrepareCustomConfig().set_float_to_observed_mapping(custom, observed)
    prepare.set_non_traceable_module_names(["o"]).set_preserved_attributes(["label"])
    prepare.set_standalone_module_name("s", None, (inputs,), inside, None).set_output_quantized_indexes([0])
    convert = configs.ConvertCustomConfig().set_observed_to_quantized_mapping(observed, quantized)
    result = passes(torch, make(), inputs, mappings(torch), custom=prepare, convert=convert, references=False)
    refused = []
    for model in (make(), 3, torch.fx.symbolic_trace(module(torch, lambda nn: {}, lambda self, x: x))):
        try:
            fx.convert_fx(model) if not hasattr(model, "c") else fx.prepare_fx(model, mappings(torch), (inputs,))
        except (ValueError, AssertionError) as error:
            refused.append(type(error).__name__)
    return {**result, "refused": refused}


@program
def lstm_that_observes_itself(torch):
    configs = torch.ao.quantization.fx.custom_config
    quantizable, quantized = torch.ao.nn.quantizable.LSTM, torch.ao.nn.quantized.LSTM

    def forward(self, x, h, c):
        y, (h, c) = self.lstm(self.a(x), (h, c))
        return self.a(y), h, c

    model = module(torch, lambda nn: {"a": nn.Linear(4, 4), "lstm": nn.LSTM(4, 4)}, forward)
    inputs = (randn(torch, 2, 1, 4), randn(torch, 1, 1, 4), randn(torch, 1, 1, 4))
    prepare = configs.PrepareCustomConfig().set_float_to_observed_mapping(torch.nn.LSTM, quantizable)
    convert = configs.ConvertCustomConfig().set_observed_to_quantized_mapping(quantizable, quantized)
    return passes(torch, model, inputs, mappings(torch), custom=prepare, convert=convert, references=False)


@program
def equalized(torch):
    _, mapping, qconfig = kit(torch)
    everywhere = torch.ao.quantization.fx._equalize.default_equalization_qconfig

    def forward(self, x):
        x = self.b(self.r(self.a(x)))
        return self.c(torch.nn.functional.linear(x, self.w, self.bias))

    def build(nn):
        return {"a": nn.Linear(4, 4), "r": nn.ReLU(), "b": nn.Linear(4, 4), "c": nn.Linear(4, 2)}

    model = module(torch, build, forward)
    model.register_buffer("w", randn(torch, 4, 4))
    model.register_buffer("bias", randn(torch, 4))
    return passes(torch, model, randn(torch, 5, 4), mapping.QConfigMapping().set_global(qconfig.default_qconfig),
                  equalize=mapping.QConfigMapping().set_global(everywhere))


@program
def backends(torch):
    """Every pattern of every backend."""
    from importlib import import_module

    configs = import_module(f"{torch.__name__}.ao.quantization.backend_config")
    x86 = import_module(f"{torch.__name__}.ao.quantization.backend_config.x86")
    found = {}
    for name in ("native", "fbgemm", "qnnpack", "onednn", "tensorrt", "executorch", "x86"):
        made = getattr(x86 if name == "x86" else configs, f"get_{name}_backend_config")()
        again = configs.BackendConfig.from_dict(made.to_dict())
        assert again.to_dict() == made.to_dict()
        lines = []
        for config in made.configs:
            entry = {k: v for k, v in config.to_dict().items() if "getter" not in k and k != "fuser_method"}
            entry["pattern"] = named(entry.pop("pattern", None) or entry.pop("pattern_complex_format"))
            lines.append(repr({key: named(value) for key, value in entry.items()}).replace("rushlight", "torch"))
        found[name] = "\n".join(lines)
    return found


def named(value):
    """Functions and classes by their names."""
    if isinstance(value, (tuple, list)):
        return [named(v) for v in value]
    return getattr(value, "__name__", value) if callable(value) else value


@program
def default_mappings(torch):
    _, mapping, _ = kit(torch)
    found = {}
    for backend in ("x86", "fbgemm", "qnnpack", "onednn"):
        for how in ("", "qat_"):
            made = getattr(mapping, f"get_default_{how}qconfig_mapping")(backend)
            again = mapping.QConfigMapping.from_dict(made.to_dict())
            assert again.to_dict() == made.to_dict() and repr(again) == repr(made)
            found[how + backend] = [str(named(key)) for key in made.object_type_qconfigs]
    return found


@program
def compared_by_the_numeric_suite(torch):
    """A model and its quantized form: layers matched, their weights and outputs beside each other."""
    fx, _, _ = kit(torch)
    ns = importlib.import_module(f"{torch.__name__}.ao.ns._numeric_suite_fx")
    model, inputs = nested(torch), randn(torch, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = fx.prepare_fx(copy.deepcopy(model).eval(), mappings(torch), (inputs,))
        prepared(inputs)
        quantized = fx.convert_fx(copy.deepcopy(prepared))
    weights = ns.extract_weights("float", prepared, "int8", quantized)
    one, two = ns.add_loggers("float", prepared, "int8", quantized, ns.OutputLogger, should_log_inputs=True)
    one(inputs)
    two(inputs)
    outputs = ns.extract_logger_info(one, two, ns.OutputLogger, "int8")
    measure = importlib.import_module(f"{torch.__name__}.ao.ns.fx.utils").compute_sqnr
    ns.extend_logger_results_with_comparison(outputs, "float", "int8", measure, "sqnr")
    worst = min(float(layer["node_output"]["int8"][0]["sqnr"][0]) for layer in outputs.values())
    return {"weights": sorted(weights), "outputs": sorted(outputs), "good": str(worst > 10),
            "code": [one.code.strip(), two.code.strip().replace("rushlight", "torch")],
            "paths": [str(layer["node_output"]["int8"][0]["fqn"]) for layer in outputs.values()]}
