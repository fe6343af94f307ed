"""The C++ face of the ops: `at::` functions and methods of `at::Tensor`, from signatures.

Enters: PyTorch's signatures of our ops (rushlight/aten/schemas.txt) and the registry's names. Leaves: the texts of
`ATen/generated/functions.inc` and its like: inline functions that pass their arguments by address to one that
is not inline. Refuses nothing: signatures without a C++ form (named dimensions, lists of lists) are left out.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..aten import overloads as aten
from ..aten.overloads import AtenParam, AtenSchema
from ..base.tables import rows
from ..op import registry
from .outs import takes_out

# schema type -> (C++ type of the parameter, kind in rushlight/call.h)
TYPES = {
    "Tensor": ("const Tensor&", "Tensor"),
    "Tensor?": ("const std::optional<Tensor>&", "OptionalTensor"),
    "Tensor[]": ("TensorList", "TensorList"),
    "Tensor?[]": ("const std::vector<std::optional<Tensor>>&", "OptionalTensorList"),
    "Scalar": ("const Scalar&", "Scalar"),
    "Scalar?": ("const std::optional<Scalar>&", "OptionalScalar"),
    "Scalar[]": ("ArrayRef<Scalar>", "ScalarList"),
    "int": ("int64_t", "Int"),
    "int?": ("std::optional<int64_t>", "OptionalInt"),
    "float": ("double", "Float"),
    "float?": ("std::optional<double>", "OptionalFloat"),
    "bool": ("bool", "Bool"),
    "bool?": ("std::optional<bool>", "OptionalBool"),
    "int[]": ("IntArrayRef", "IntList"),
    "int[]?": ("OptionalIntArrayRef", "OptionalIntList"),
    "float[]": ("ArrayRef<double>", "FloatList"),
    "float[]?": ("std::optional<ArrayRef<double>>", "OptionalFloatList"),
    "bool[]": ("ArrayRef<bool>", "BoolList"),
    "str": ("std::string_view", "Text"),
    "str?": ("std::optional<std::string_view>", "OptionalText"),
    "ScalarType": ("ScalarType", "Type"),
    "ScalarType?": ("std::optional<ScalarType>", "OptionalType"),
    "Device": ("Device", "Device"),
    "Device?": ("std::optional<Device>", "OptionalDevice"),
    "Layout": ("Layout", "Layout"),
    "Layout?": ("std::optional<Layout>", "OptionalLayout"),
    "MemoryFormat": ("MemoryFormat", "MemoryFormat"),
    "MemoryFormat?": ("std::optional<MemoryFormat>", "OptionalMemoryFormat"),
    "Generator?": ("std::optional<Generator>", "OptionalGenerator"),
    "Storage": ("const c10::Storage&", "Storage"),
}
RETURNS = {
    "Tensor": ("Tensor", "::rushlight::tensor_of({})"),
    "Tensor[]": ("std::vector<Tensor>", "::rushlight::tensors_of({})"),
    "int": ("int64_t", "::rushlight::int_of({})"),
    "SymInt": ("int64_t", "::rushlight::int_of({})"),
    "float": ("double", "::rushlight::double_of({})"),
    "bool": ("bool", "::rushlight::bool_of({})"),
    "Scalar": ("Scalar", "::rushlight::scalar_of({})"),
    "ScalarType": ("ScalarType", "::rushlight::dtype_of({})"),
}
SPACES = ("fft", "special")  # namespaces of torch:: that have ops under shorter names
OPTIONS = ("dtype", "layout", "device", "pin_memory")
# Written by hand in rushlight/tensor.h and functions.h.
WRITTEN = frozenset(
    (
        "to",
        "index",
        "index_put_",
        "item",
        "size",
        "stride",
        "numel",
        "contiguous",
        "is_contiguous",
        "data",
        "set_data",
        "requires_grad_",
        "backward",
        "cpu",
        "cuda",
        "dim",
        "is_pinned",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "is_leaf",
        "output_nr",
        "_version",
        "retain_grad",
        "retains_grad",
        "equal",
        "detach_",
        "is_same_size_",
        "result_type",
        "grad",
        "storage_offset",
        "is_inference",
        "layout",
        "dtype",
        "device",
        "infer_size",
        "scalar_tensor",
        "tensor",
        "manual_seed",
        "get_device",
        "element_size",
        "nelement",
        "register_hook",
        "unique",
        "unique_consecutive",
        "sym_size",
        "sym_numel",
        "sym_stride",
        "sym_storage_offset",
        "from_blob",
        "toString",
        "is_neg_",
        "can_cast",
        "promote_types",
        "is_nested",
        "is_sparse",
        "is_quantized",
        "is_meta",
        "ndimension",
        "__getitem__",
        "norm.Scalar",
        "is_distributed",
    )
)
PACK = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False"
COMPRESSED = {  # what the two lists of indices of a layout are called
    "sparse_compressed": "compressed plain",
    "sparse_csr": "crow col",
    "sparse_csc": "ccol row",
    "sparse_bsr": "crow col",
    "sparse_bsc": "ccol row",
}
# What Python has as plain methods or functions, so that no op's signature says it.
FURTHER = f"""
allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool
is_nonzero(Tensor self) -> bool
is_same_size(Tensor self, Tensor other) -> bool
is_set_to(Tensor self, Tensor tensor) -> bool
is_coalesced(Tensor self) -> bool
conj_physical_(Tensor(a!) self) -> Tensor(a!)
squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)
squeeze_(Tensor(a!) self) -> Tensor(a!)
swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)
swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
t_(Tensor(a!) self) -> Tensor(a!)
transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)
pin_memory(Tensor self) -> Tensor
coalesce(Tensor self) -> Tensor
indices(Tensor self) -> Tensor
values(Tensor self) -> Tensor
sparse_dim(Tensor self) -> int
dense_dim(Tensor self) -> int
to_sparse(Tensor self) -> Tensor
to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor
to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor
to_sparse_csc(Tensor self, int? dense_dim=None) -> Tensor
to_sparse_bsr(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor
to_sparse_bsc(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor
crow_indices(Tensor self) -> Tensor
col_indices(Tensor self) -> Tensor
ccol_indices(Tensor self) -> Tensor
row_indices(Tensor self) -> Tensor
_indices(Tensor self) -> Tensor
_values(Tensor self) -> Tensor
_nnz(Tensor self) -> int
sparse_mask(Tensor self, Tensor mask) -> Tensor
resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)
resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)
set_(Tensor(a!) self) -> Tensor(a!)
set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)
set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)
set_.offset(Tensor(a!) self, Tensor source, int storage_offset, int[] size, int[]? stride=None) -> Tensor(a!)
set_.storage_offset(Tensor(a!) self, Storage source, int storage_offset, int[] size, int[]? stride=None) -> Tensor(a!)
sparse_coo_tensor.size(int[] size, *, {PACK}) -> Tensor
sparse_coo_tensor.indices(Tensor indices, Tensor values, *, {PACK}, bool? is_coalesced=None) -> Tensor
sparse_coo_tensor.indices_size(Tensor indices, Tensor values, int[] size, *, {PACK}, bool? is_coalesced=None) -> Tensor
""".strip().splitlines() + [
    f"{name}_tensor.{label}(Tensor {first}_indices, Tensor {second}_indices, Tensor values, {size}*, {PACK}) -> Tensor"
    for name, pair in COMPRESSED.items()
    for first, second in [pair.split()]
    for label, size in (("value", ""), ("value_size", "int[] size, "))
]
OUT_LABELS = re.compile(  # of overloads that write into what they are given
    r"out|\w+_out|Out\w+|values|\w+_values|values_stable|grad_input|output|L|U|Q|X|a|solution|min|max|\w+_(min|max)"
)
RESERVED = frozenset("and or xor not default template class new delete register this operator union".split())
SCRIPT_ONLY = re.compile(
    r"prim_|list_|^copy_\.(Tensor|float|int)$|dimname|\.(str|complex|int_int|.*hacked.*)$|^sub_list|^split\.sizes$"
)
PREDICATES = ("is_conj", "is_neg")


class Parameter(NamedTuple):
    """One parameter of a C++ function."""

    type: str
    kind: str
    name: str
    default: str  # C++ text after "=", or ""
    keyword: str  # the name it is passed by, or "" by place
    usual: int | None  # passed by keyword: left out where it has this value


class Function(NamedTuple):
    """One C++ function or method."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    take: str
    op: tuple[str, str | None]  # name and overload of rushlight/call.h's Op
    outs: int = 0


def headers() -> dict[str, str]:
    """The generated files by name."""
    functions, methods = collected()
    texts: dict[str, Any] = {"functions": map(function_text, functions), "methods": map(method_text, methods)}
    for space in SPACES:
        own = [f for f in functions if f.name.startswith(f"{space}_")]
        texts[space] = [function_text(f._replace(name=f.name.removeprefix(f"{space}_"))) for f in own]
    return {f"{name}.inc": "\n".join(lines) + "\n" for name, lines in texts.items()}


def collected() -> tuple[list[Function], list[Function]]:
    """Every function and every method, each C++ signature once."""
    registry.load_all()
    functions: dict[Any, Function] = {}
    methods: dict[Any, Function] = {}
    outs = _names_with_out()
    further = [aten.custom_schema("aten", text) for text in FURTHER]
    for schema in (*aten.all_schemas(), *further):
        for made in _functions_of(schema, schema.op in outs and schema not in further):
            if made.name not in WRITTEN:
                functions.setdefault(_key(made), made)
            if (
                not made.outs
                and any(p.name == "self" and p.kind == "Tensor" for p in made.parameters)
                and _is_method(schema, made)
            ):
                # `result_type` and its like have another C++ form, written by hand
                key = (made.name, tuple(p.type for p in made.parameters if p.name != "self"))
                if made.name not in WRITTEN:
                    methods.setdefault(key, made)
    return _told_apart(list(functions.values())), _told_apart(list(methods.values()))


def _told_apart(made: list[Function]) -> list[Function]:
    """Where a call could mean two of one name, since one takes what the other does and has defaults for the rest, the
    longer one must be given its next argument: `t.all()` is one call."""
    types: dict[str, set[tuple[str, ...]]] = {}
    for f in made:
        types.setdefault(f.name, set()).add(tuple(p.type for p in f.parameters))

    def apart(f: Function) -> Function:
        for count in range(len(f.parameters)):
            same = tuple(p.type for p in f.parameters[:count]) in types[f.name]
            if same and all(p.default for p in f.parameters[count:]):
                must = f.parameters[count]._replace(default="")
                return f._replace(parameters=(*f.parameters[:count], must, *f.parameters[count + 1 :]))
        return f

    return [apart(f) for f in made]


def _key(function: Function) -> tuple[Any, ...]:
    return function.name, tuple(p.type for p in function.parameters)


def _names_with_out() -> set[str]:
    """Ops that write into given tensors too: by PyTorch's names of overloads, and those of ours that do."""
    found = set()
    for row in rows(aten.__file__, "overload_names"):
        name, _, labels = row.partition(":")
        if any(OUT_LABELS.fullmatch(label) for label in labels.split()):
            found.add(name)
    for space in ("", "fft", "linalg", "special"):
        prefix = f"{space}_" if space else ""
        found |= {prefix + name for name, op in registry.published(space).items() if takes_out(op)}
    return found


def _is_method(schema: AtenSchema, made: Function) -> bool:
    from .. import _C  # noqa: PLC0415 - the compiled class, which methods were put on

    # Python has brackets for it.
    return schema.op == "slice" or schema.op in registry.tables.methods or hasattr(_C.Tensor, made.name)


def _functions_of(schema: AtenSchema, has_out: bool) -> list[Function]:
    name = schema.op
    label = f"{name}.{schema.overload_name}"
    if SCRIPT_ONLY.search(label) or name in RESERVED or not name.isidentifier() or name.startswith("__"):
        return []
    params = _parameters(schema)
    result = _result(schema)
    if params is None or result is None:
        return []
    target = _target(schema, params)
    made = [Function(name, tuple(params), *result, target)]
    tensors = [r for r in schema.returns if r.type == "Tensor"]
    if target[1] == "":  # a method has no out=
        target = target[0], schema.overload_name or "default"
    if has_out and not schema.is_mutable and [r.type for r in schema.returns] == ["Tensor[]"]:
        written = Parameter("TensorList", "TensorList", "out", "", "", None)
        made.append(Function(f"{name}_out", (written, *params), "void", "", target, 1))
    if has_out and not schema.is_mutable and tensors and len(tensors) == len(schema.returns):
        count = len(tensors)
        names = (
            [r.name if r.name and r.name != "self" else f"out{i}" for i, r in enumerate(tensors)]
            if count > 1
            else ["out"]
        )
        taken = {p.name for p in params}
        written = tuple(Parameter("Tensor&", "Tensor", n + "_out" if n in taken else n, "", "", None) for n in names)
        kept = tuple(p for p in params if p.name not in ("options", "memory_format"))
        kind = "Tensor&" if count == 1 else f"std::tuple<{', '.join(['Tensor&'] * count)}>"
        made.append(Function(f"{name}_out", written + kept, kind, "", target, count))
    return made


def _result(schema: AtenSchema) -> tuple[str, str] | None:
    """The C++ type of what is returned, and how it is taken from the call."""
    if not schema.returns:
        return "void", "::rushlight::forget({})"
    if len(schema.returns) > 1:
        if any(r.type != "Tensor" for r in schema.returns):
            return None
        return f"std::tuple<{', '.join(['Tensor'] * len(schema.returns))}>", "unpack"
    only = schema.returns[0]
    if only.type == "Tensor" and only.is_write:
        first = schema.arguments[0]
        return (
            (f"Tensor&:{first.name}", "::rushlight::forget({})")
            if first.is_write and first.type == "Tensor"
            else RETURNS["Tensor"]
        )
    return RETURNS.get(only.type)


def _parameters(schema: AtenSchema) -> list[Parameter] | None:
    given = list(schema.arguments)
    packs = [p.name for p in given if p.kwarg_only][-6:]
    packed = all(name in packs for name in OPTIONS)
    made: list[Parameter] = []
    if any(not p.name.isidentifier() for p in given):  # a variable number of them
        return None
    for param in given:
        if packed and param.name in OPTIONS:
            if param.name == "dtype":
                made.append(Parameter("const TensorOptions&", "Options", "options", "{}", "options", None))
            continue
        one = _parameter(param)
        if one is None:
            return None
        made.append(one)
    for i in range(len(made) - 2, -1, -1):  # C++ wants defaults last
        if made[i].default and not made[i + 1].default:
            made[i] = made[i]._replace(default="")
    return made


def _parameter(param: AtenParam) -> Parameter | None:
    kind = param.type.replace("SymInt", "int")
    kind = re.sub(r"\[\d+\]", "[]", kind)
    known = TYPES.get(kind)
    if known is None:
        return None
    type_, tag = known
    if param.is_write and kind == "Tensor":
        type_ = "Tensor&" if param.name == "self" else type_
    default = "" if not param.has_default else _default(kind, param.default)
    # Behind a number, Python takes it by name alone: by place it was the factor's once.
    by_name = param.kwarg_only or (param.name == "alpha" and param.has_default)
    usual = param.default if by_name and param.has_default and isinstance(param.default, (int, float)) else None
    usual = (
        int(usual)
        if usual is not None and kind in ("Scalar", "bool", "int") and int(usual) == usual and abs(usual) < 100
        else None
    )
    name = param.name + "_" if param.name in RESERVED else param.name
    return Parameter(type_, tag, name, default, param.name if by_name else "", usual)


def _default(kind: str, value: Any) -> str:
    if value is None:
        return "{}" if kind == "Tensor?" else "std::nullopt"
    if kind in ("Tensor", "Tensor[]", "Tensor?[]"):
        return "{}"
    if kind in ("int[]", "float[]", "bool[]", "int[]?", "Scalar[]"):
        whole = value if isinstance(value, (list, tuple)) else [value]
        if not whole:
            return "{}"
        # A list in braces would die before the call: an address that stays does not.
        return f"::rushlight::kept<{', '.join(str(int(v)) for v in whole)}>()" if kind.startswith("int") else ""
    if kind.startswith("bool"):
        return str(bool(value)).lower()
    if kind.startswith("ScalarType"):
        return f"static_cast<ScalarType>({int(value)})" if isinstance(value, int) else "std::nullopt"
    if kind.startswith("MemoryFormat"):
        return "MemoryFormat::Contiguous"
    if kind.startswith("str"):
        return '"' + str(value) + '"'
    if kind.startswith("float") or (kind.startswith("Scalar") and isinstance(value, float)):
        text = repr(float(value))
        return {
            "inf": "std::numeric_limits<double>::infinity()",
            "-inf": "-std::numeric_limits<double>::infinity()",
        }.get(text, text)
    if isinstance(value, (int, float)):
        return str(value)
    return ""


def _target(schema: AtenSchema, params: list[Parameter]) -> tuple[str, str | None]:
    """The function of the package where it has one under PyTorch's name, a method of tensors, or `ops.aten`."""
    from .. import _C  # noqa: PLC0415

    own = registry.tables.functions.get("", {})
    if schema.op in own:
        return schema.op, None
    if params and params[0].name == "self" and params[0].kind == "Tensor" and hasattr(_C.Tensor, schema.op):
        return schema.op, ""
    return schema.op, schema.overload_name or "default"


# --- text -------------------------------------------------------------------------------------------------------------


def _signature(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(f"{p.type} {p.name}" + (f" = {p.default}" if p.default else "") for p in parameters)


def _body(function: Function, self_name: str, is_method: bool) -> str:
    passed = function.parameters[function.outs :]
    places = [p for p in passed if not p.keyword]
    words = [p for p in passed if p.keyword]
    names = "".join(f"{p.keyword}," for p in words)
    name, overload = function.op
    label = "nullptr" if overload is None else f'"{overload}"'
    arguments = ", ".join(
        f"{{{'this' if is_method and p.name == 'self' else '&' + p.name}, ::rushlight::k{p.kind}"
        + (f", {p.usual}" if p.usual is not None else "")
        + "}"
        for p in places + words
    )
    head = f'static ::rushlight::Op op_{{"{name}", {label}, "{names}"}}; '
    head += (
        f"const ::rushlight::Argument arg_[]{{{arguments}}}; "
        if passed
        else "const ::rushlight::Argument* arg_ = nullptr; "
    )
    call = f"::rushlight::call(op_, arg_, {len(passed)})"
    if function.outs:
        outs = [p.name for p in function.parameters[: function.outs]]
        if function.result == "void":
            return head + f"::rushlight::call_out(op_, arg_, {len(passed)}, {outs[0]});"
        head += f"Tensor* const outs_[]{{{', '.join('&' + o for o in outs)}}}; "
        back = outs[0] if len(outs) == 1 else f"std::tie({', '.join(outs)})"
        return head + f"::rushlight::call_out(op_, arg_, {len(passed)}, outs_, {len(outs)}); return {back};"
    if function.take == "unpack":
        count = function.result.count("Tensor")
        parts = ", ".join(f"std::move(r_[{i}])" for i in range(count))
        return head + f"Tensor r_[{count}]; ::rushlight::unpack({call}, r_, {count}); return {{{parts}}};"
    if function.result.startswith("Tensor&:"):
        return head + f"{function.take.format(call)}; return {self_name};"
    if function.result == "void":
        return head + f"{function.take.format(call)};"
    return head + f"return {function.take.format(call)};"


def function_text(function: Function) -> str:
    """The inline function."""
    result, _, first = (
        function.result.partition(":") if function.result.startswith("Tensor&:") else (function.result, "", "")
    )
    parameters = function.parameters
    if first:
        parameters = tuple(p._replace(type="Tensor&") if p.name == first else p for p in parameters)
        if first == "self":  # temporaries are written too: views
            parameters = tuple(p._replace(type="const Tensor&") if p.name == first else p for p in parameters)
            result = "const Tensor&"
    return f"inline {result} {function.name}({_signature(parameters)}) {{ {_body(function, first, False)} }}"


def method_text(function: Function) -> str:
    """The method, defined in the class."""
    parameters = tuple(p for p in function.parameters if p.name != "self")
    result, first = function.result, ""
    if result.startswith("Tensor&:"):
        result, first = "Tensor&", "const_cast<Tensor&>(*this)"
    return f"{result} {function.name}({_signature(parameters)}) const {{ {_body(function, first, True)} }}"
