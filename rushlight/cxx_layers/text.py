"""The C++ text of layers, functions and optimizers.

Enters: the records of records.py. Leaves: `rushlight/generated/layers.h`, `functional.h`, `optim.h` with declarations
only, so that programs compile quickly, and `layers.cpp` with what is behind them, for the runtime library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import records
from .records import Argument, FunctionFace, Layer, Option, Options

SHORTER = {"TransformerOptions": (2, 4)}  # constructors that take the first few options, though all have defaults
# PyTorch's headers below torch/nn and torch/optim, which programs include singly.
FACES = {
    "nn.h": {
        "": "enum ordered_dict expanding_array arg",
        "nn/": "module modules options functional init utils pimpl cloneable",
        "nn/modules/": "activation adaptive batchnorm common conv distance dropout embedding fold instancenorm linear "
        "loss normalization padding pixelshuffle pooling rnn transformer transformercoder transformerlayer upsampling",
        "nn/modules/container/": "any functional moduledict modulelist named_any parameterdict parameterlist "
        "sequential",
        "nn/options/": "activation adaptive batchnorm conv distance dropout embedding fold instancenorm linear loss "
        "normalization padding pixelshuffle pooling rnn transformer transformercoder transformerlayer upsampling "
        "vision",
        "nn/functional/": "activation batchnorm conv distance dropout embedding fold instancenorm linear loss "
        "normalization padding pixelshuffle pooling upsampling vision",
        "nn/utils/": "clip_grad convert_parameters rnn",
    },
    "optim.h": {
        "optim/": "optimizer sgd adam adamw adagrad rmsprop lbfgs",
        "optim/schedulers/": "lr_scheduler step_lr reduce_on_plateau_scheduler",
    },
}


def headers() -> dict[str, str]:
    """The generated headers by their path below the folder of generated headers."""
    made, optimizers, states = records.layers(), records.optimizers(), records.optimizer_states()
    texts = {
        "rushlight/generated/layers.h": layers_header(made),
        "rushlight/generated/functional.h": functional_header(records.functions(), made),
        "rushlight/generated/optim.h": optim_header(optimizers, states),
    }
    for target, folders in FACES.items():
        text = f"// PyTorch's name for: torch/{target}\n#pragma once\n#include <torch/{target}>\n"
        texts |= {f"torch/{folder}{name}.h": text for folder, names in folders.items() for name in names.split()}
    return texts


def sources() -> dict[str, str]:
    """The generated sources of the runtime."""
    made, functions = records.layers(), records.functions()
    head = '#include "fields.h"\n\nusing namespace rushlight;\nusing namespace rushlight::nn;\n'
    structs = {one.options.name: one.options for one in made if one.options}
    body = ["namespace torch::nn {", *map(fields_text, structs.values()), *map(layer_source, made)]
    body += ["namespace functional {"]
    body += [fields_text(o) for o in own_options(functions, structs)]
    body += [function_source(f) for f in functions]
    body += ["}  // namespace functional", "}  // namespace torch::nn"]
    body += ["namespace rushlight::nn {", makers_text(made), "}"]
    optimizers, states = records.optimizers(), records.optimizer_states()
    behind = [head, "namespace torch::optim {", *(fields_text(state) for _, state in states)]
    behind += [*(optimizer_source(n, o) for n, o in optimizers), "}", states_text(states)]
    return {"layers.cpp": "\n".join((head, *body)) + "\n", "optimizers.cpp": "\n".join(behind) + "\n"}


# --- options ----------------------------------------------------------------------------------------------------------


def is_plain(kind: str) -> bool:
    """Whether one value of this type can stand for all options."""
    return not kind.startswith(("Tensor", "std::optional", "AnyModule"))


def type_name(option: Option) -> str:
    """The type as TORCH_ARG takes it: without commas."""
    return f"{option.name}_t" if "," in option.type else option.type


def options_text(options: Options, base: str = "", extra: Sequence[str] = (), fields: bool = True) -> str:
    """The struct of options."""
    name = options.name
    lines = [f"struct {name}{base} {{"]
    lines += [f"  using {o.name}_t = {o.type};" for o in options.options if "," in o.type]
    required = options.required()
    if required:
        lines.append(f"  {constructor(name, required)}")
        for o in required:
            if o.type.startswith("Transformer"):  # a layer, or what it is made of
                behind = "".join(f", {type_name(p)} {p.name}" for p in required if p is not o)
                rest = "".join(f", {p.name}" for p in required if p is not o)
                taken, passed = f"const {o.type}Options& {o.name}{behind}", f"{o.type}({o.name}){rest}"
                lines.append(f"  {name}({taken}) : {name}({passed}) {{}}")
    else:
        lines.append(f"  {name}() = default;")
        first = options.options[0]
        if first.type.startswith("std::variant<enumtype"):
            lines.append(
                f"  template <class Word, class = std::enable_if_t<std::is_constructible_v<{first.name}_t, Word>>>\n"
                f"  {name}(Word {first.name}) : {first.name}_({first.name}) {{}}"
            )
        elif is_plain(first.type):
            lines.append(f"  {constructor(name, (first,))}")
        lines += [f"  {constructor(name, options.options[:count])}" for count in SHORTER.get(name, ())]
    for o in options.options:
        lines.append(f"  TORCH_ARG({type_name(o)}, {o.name})" + (f" = {o.default};" if o.default is not None else ";"))
    lines += [" public:", *extra, "  std::vector<::rushlight::nn::Field> fields();"] if fields else []
    return "\n".join((*lines, "};"))


def constructor(name: str, options: Sequence[Option]) -> str:
    """One that takes these options."""
    taken = ", ".join(f"{type_name(o)} {o.name}" for o in options)
    return f"{name}({taken}) : " + ", ".join(f"{o.name}_(std::move({o.name}))" for o in options) + " {}"


def fields_text(options: Options) -> str:
    """What names the options to Python."""
    listed = ", ".join(f'field("{o.python}", {o.name}_)' for o in options.options)
    return f"std::vector<Field> {options.name}::fields() {{ return {{{listed}}}; }}"


def family_texts(names: Sequence[str]) -> list[str]:
    """`ConvOptions<2>` for Conv2dOptions and its like, and names of dimensions for options that know none."""
    stems: dict[str, list[str]] = {}
    for name in names:
        found = re.fullmatch(r"(\w+)([123])d((?:Func)?Options)", name)
        if found and found.group(1) + found.group(3) not in names:
            stems.setdefault(found.group(1) + found.group(3), []).append(found.group(2))
    texts = []
    for family, numbers in stems.items():
        stem, ending = re.fullmatch(r"(\w+?)((?:Func)?Options)", family).groups()
        texts.append(f"namespace detail {{ template <size_t D> struct {family}Of;")
        texts += [f"template <> struct {family}Of<{d}> {{ using type = {stem}{d}d{ending}; }};" for d in numbers]
        texts.append(f"}}\ntemplate <size_t D> using {family} = typename detail::{family}Of<D>::type;")
    return texts


# --- layers -----------------------------------------------------------------------------------------------------------


def parameter_text(argument: Argument, with_default: bool = True) -> str:
    """A parameter of a C++ function."""
    return f"{argument.type} {argument.name}" + (f" = {argument.default}" if with_default and argument.default else "")


def layers_header(made: Sequence[Layer]) -> str:
    """Every layer and its options, declared."""
    texts = ["#pragma once", "#include <rushlight/nn/layer.h>", "", "namespace torch::nn {"]
    known: set[str] = set()
    for one in made:
        if one.options and one.options.name not in known:
            known.add(one.options.name)
            texts.append(options_text(one.options))
        texts.append(layer_text(one))
    for stem, users in records.SHARED.items():
        texts += [f"using {user}Options = {stem}Options;" for user in users if user != stem]
    return "\n".join((*texts, *family_texts(sorted(known)), "}  // namespace torch::nn", ""))


def layer_text(one: Layer) -> str:
    """The class of a layer, declared."""
    impl = f"{one.name}Impl"
    lines = [f"class {impl} : public Cloneable<{impl}, ::rushlight::nn::Layer> {{", " public:"]
    required = one.options.required() if one.options else ()
    if one.options:
        usual = "" if required else " = {}"
        lines.append(f"  explicit {impl}(const {one.options.name}& options_{usual});")
        for count in (len(required), *SHORTER.get(one.options.name, ())):
            taken = one.options.options[:count] if not required else required
            if taken and count:
                # an option's alias is known inside its struct
                listed = ", ".join(f"{o.type} {o.name}" for o in taken)
                passed = ", ".join(f"std::move({o.name})" for o in taken)
                lines.append(f"  explicit {impl}({listed}) : {impl}({one.options.name}({passed})) {{}}")
    else:
        lines.append(f"  {impl}();")
    lines.append(f"  explicit {impl}(const ::rushlight::nn::Adopted& face);")
    lines.append("  void reset() override;")
    lines.append(f"  {one.result} forward({', '.join(map(parameter_text, one.arguments))});")
    lines += [f"  {text};" for text in further_methods(one)]
    lines += [f"  {one.options.name} options;"] if one.options else []
    lines += [f"  Tensor {', '.join(one.tensors)};"] if one.tensors else []
    lines += [f"  {kind} {field}{{nullptr}};" for field, kind in one.parts]
    if any(a.default for a in one.arguments):
        defaults = ", ".join(
            f"{{{i}, AnyValue({default_value(a)})}}" for i, a in enumerate(one.arguments) if a.default
        )
        lines.append(f"  FORWARD_HAS_DEFAULT_ARGS({defaults})")
    lines += [" protected:"]
    lines += ["  std::vector<::rushlight::nn::Field> options_fields() const override;"] if one.options else []
    lines += ["  Tensors tensor_fields() override;"] if one.tensors else []
    lines += ["  Parts part_fields() override;"] if one.parts else []
    return "\n".join((*lines, "};", holder_text(one)))


def holder_text(one: Layer) -> str:
    """The class that programs hold a layer by."""
    if one.pretrained is None:
        return f"TORCH_MODULE({one.name});"
    name, options = one.name, one.pretrained
    passed = "".join(f".{o.name}(options.{o.name}())" for o in options.options if o.name != "freeze")
    return "\n".join(
        (
            options_text(options, fields=False),
            f"class {name} : public ModuleHolder<{name}Impl> {{",
            " public:",
            f"  using ModuleHolder<{name}Impl>::ModuleHolder;",
            f"  using Impl = {name}Impl;",
            f"  static {name} from_pretrained(const Tensor& embeddings, const {options.name}& options = {{}}) {{",
            f"    {name}Options all(embeddings.size(0), embeddings.size(1));",
            f"    {name} made(all._weight(embeddings){passed});",
            "    made->weight.set_requires_grad(!options.freeze());",
            "    return made;",
            "  }",
            "};",
        )
    )


def default_value(argument: Argument) -> str:
    """A default as a value of the parameter's own type."""
    kind = argument.type.removeprefix("const ").removesuffix("&")
    return f"{kind}()" if argument.default in ("{}", "std::nullopt") else f"{kind}({argument.default})"


def further_methods(one: Layer) -> list[str]:
    """What a layer can besides `forward`, declared."""
    if one.name in ("LSTM", "GRU", "RNN"):
        hx = one.arguments[1].type
        state = "std::tuple<Tensor, Tensor>" if one.name == "LSTM" else "Tensor"
        return [
            f"std::tuple<utils::rnn::PackedSequence, {state}> forward_with_packed_input("
            f"const utils::rnn::PackedSequence& packed_input, {hx} hx = {{}})",
            "std::vector<Tensor> all_weights() const { return parameters(false); }",
            "void flatten_parameters() {}",
        ]
    if "MaxPool" in one.name:
        return ["std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input)"]
    if one.name == "AdaptiveLogSoftmaxWithLoss":
        return ["Tensor log_prob(const Tensor& input)", "Tensor predict(const Tensor& input)"]
    if one.name == "Transformer":
        return ["static Tensor generate_square_subsequent_mask(int64_t size)"]
    return []


def layer_source(one: Layer) -> str:
    """What is behind a layer's declarations."""
    impl = f"{one.name}Impl"
    base = f'Cloneable("{one.name}")'
    lines = []
    if one.options:
        blank = ", ".join(blank_value(o) for o in one.options.required())
        asked = f"return const_cast<{impl}*>(this)->options.fields();"
        lines.append(f"{impl}::{impl}(const {one.options.name}& options_) : {base}, options(options_) {{ make(); }}")
        lines.append(f"{impl}::{impl}(const Adopted& face) : {base}, options({blank}) {{ adopt(face); }}")
        lines.append(f"std::vector<Field> {impl}::options_fields() const {{ {asked} }}")
    else:
        lines.append(f"{impl}::{impl}() : {base} {{ make(); }}")
        lines.append(f"{impl}::{impl}(const Adopted& face) : {base} {{ adopt(face); }}")
    lines.append(f"void {impl}::reset() {{ make(); }}")
    if one.tensors:
        listed = ", ".join(f'{{"{t}", &{t}}}' for t in one.tensors)
        lines.append(f"Layer::Tensors {impl}::tensor_fields() {{ return {{{listed}}}; }}")
    if one.parts:
        listed = ", ".join(f'part("{field}", {field})' for field, _ in one.parts)
        lines.append(f"Layer::Parts {impl}::part_fields() {{ return {{{listed}}}; }}")
    taken = ", ".join(parameter_text(a, False) for a in one.arguments)
    passed = "".join(f", {a.name}" for a in one.arguments)
    lines.append(f"{one.result} {impl}::forward({taken}) {{ return run<{one.result}>(*this, nullptr{passed}); }}")
    if one.name in ("LSTM", "GRU", "RNN"):
        state = "std::tuple<Tensor, Tensor>" if one.name == "LSTM" else "Tensor"
        result = f"std::tuple<utils::rnn::PackedSequence, {state}>"
        hx = one.arguments[1].type
        lines.append(
            f"{result} {impl}::forward_with_packed_input(const utils::rnn::PackedSequence& packed, {hx} hx) "
            f"{{ return run<{result}>(*this, nullptr, packed, hx); }}"
        )
    elif "MaxPool" in one.name:
        lines.append(
            f"std::tuple<Tensor, Tensor> {impl}::forward_with_indices(const Tensor& input) "
            "{ return with_indices(*this, input); }"
        )
    elif one.name == "AdaptiveLogSoftmaxWithLoss":
        for method in ("log_prob", "predict"):
            body = f'return run<Tensor>(*this, "{method}", input);'
            lines.append(f"Tensor {impl}::{method}(const Tensor& input) {{ {body} }}")
    elif one.name == "Transformer":
        lines.append(f"Tensor {impl}::generate_square_subsequent_mask(int64_t size) {{ return causal_mask(size); }}")
    return "\n".join(lines)


def blank_value(option: Option) -> str:
    """A value of a required option that Python's is read over."""
    if option.type.startswith("Transformer"):
        return f"{option.type}(nullptr)"
    if option.type == "double":
        return "0.0"
    return f"{option.type}({'' if 'vector' in option.type else '0'})"


def makers_text(made: Sequence[Layer]) -> str:
    """The layers by name, for the parts that Python layers bring."""
    lines = ["std::shared_ptr<Layer> typed_layer(std::string_view name, const Adopted& face) {"]
    lines += [f'  if (name == "{m.name}") return std::make_shared<torch::nn::{m.name}Impl>(face);' for m in made]
    return "\n".join((*lines, "  return nullptr;", "}"))


# --- functions --------------------------------------------------------------------------------------------------------


def own_options(functions: Sequence[FunctionFace], structs: dict[str, Options]) -> list[Options]:
    """The options of functions that are no layer's."""
    found = {f.options.name: f.options for f in functions if f.options and not twin(f.options, structs)}
    return list(found.values())


def twin(options: Options, structs: dict[str, Options]) -> str | None:
    """The layer's options that are the same ones."""
    stem = options.name.removesuffix("FuncOptions")
    for name in (f"{stem}Options", f"{stem}LossOptions"):
        if name in structs and set(structs[name].options) == set(options.options):
            return name
    return None


def functional_header(functions: Sequence[FunctionFace], made: Sequence[Layer]) -> str:
    """Every function and its options, declared."""
    structs = {one.options.name: one.options for one in made if one.options}
    texts = ["#pragma once", "#include <rushlight/generated/layers.h>", "", "namespace torch::nn::functional {"]
    texts += [options_text(o) for o in own_options(functions, structs)]
    names = {f.options.name: f.options for f in functions if f.options}
    texts += [f"using {name} = {other};" for name, o in names.items() if (other := twin(o, structs))]
    texts += [f"{function_head(f, True)};" for f in functions]
    return "\n".join((*texts, *family_texts(sorted(names)), "}  // namespace torch::nn::functional", ""))


def function_head(face: FunctionFace, with_defaults: bool) -> str:
    """The declaration of a function."""
    taken = [parameter_text(a, with_defaults) for a in face.arguments]
    if face.options:
        usual = " = {}" if with_defaults and not face.options.required() else ""
        taken.append(f"const {face.options.name}& options{usual}")
    return f"{face.result} {face.name}({', '.join(taken)})"


def function_source(face: FunctionFace) -> str:
    """What is behind a function."""
    names = ", ".join(f'"{a.python}"' for a in face.arguments)
    passed = ", ".join(a.name for a in face.arguments)
    fields = f"const_cast<{face.options.name}&>(options).fields()" if face.options else "{}"
    body = f'return function<{face.result}>("{face.name}", {fields}, {{{names}}}, {passed});'
    return f"{function_head(face, False)} {{ {body} }}"


# --- optimizers -------------------------------------------------------------------------------------------------------


def optim_header(optimizers: Sequence[tuple[str, Options]], states: Sequence[tuple[str, Options]]) -> str:
    """The optimizers, their options and what they keep of a parameter, declared."""
    texts = ["#pragma once", "#include <rushlight/optim/optimizer.h>", "", "namespace torch::optim {"]
    texts += [state_text(state) for _, state in states]
    for name, options in optimizers:
        base = f" : public OptimizerCloneableOptions<{options.name}>"
        extra = (
            "  double get_lr() const override { return lr_; }",
            "  void set_lr(const double lr) override { lr_ = lr; }",
            "  std::vector<::rushlight::nn::Field> python_fields() override { return fields(); }",
        )
        texts.append(options_text(options, base, extra))
        texts.append(
            f"class {name} : public ::rushlight::optim::PythonOptimizer {{\n public:\n"
            f"  explicit {name}(const std::vector<OptimizerParamGroup>& groups, {options.name} defaults = {{}});\n"
            f"  explicit {name}(std::vector<Tensor> parameters, {options.name} defaults = {{}});\n}};"
        )
    return "\n".join((*texts, "}  // namespace torch::optim", ""))


def optimizer_source(name: str, options: Options) -> str:
    """What is behind an optimizer's declarations."""
    made = f'PythonOptimizer("{name}", {{}}, std::make_unique<{options.name}>(defaults))'
    groups = made.replace("{}", "groups")
    parameters = made.replace("{}", "{OptimizerParamGroup(std::move(parameters))}")
    return "\n".join(
        (
            fields_text(options),
            f"{name}::{name}(const std::vector<OptimizerParamGroup>& groups, {options.name} defaults) : {groups} {{}}",
            f"{name}::{name}(std::vector<Tensor> parameters, {options.name} defaults) : {parameters} {{}}",
        )
    )


def state_text(state: Options) -> str:
    """What is kept of a parameter, declared."""
    lines = [f"struct {state.name} : public OptimizerCloneableParamState<{state.name}> {{"]
    lines += [f"  TORCH_ARG({o.type}, {o.name}) = {o.default};" for o in state.options]
    lines += [" public:", "  std::vector<::rushlight::nn::Field> python_fields() override { return fields(); }"]
    return "\n".join((*lines, "  std::vector<::rushlight::nn::Field> fields();", "};"))


def states_text(states: Sequence[tuple[str, Options]]) -> str:
    """Empty states by the name of their optimizer."""
    lines = [
        "namespace rushlight::optim {",
        "std::unique_ptr<torch::optim::OptimizerParamState> empty_state(std::string_view optimizer) {",
        *(f'  if (optimizer == "{name}") return std::make_unique<torch::optim::{s.name}>();' for name, s in states),
    ]
    return "\n".join((*lines, "  return nullptr;", "}", "}"))
