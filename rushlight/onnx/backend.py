"""The standard's interface to runtimes (`onnx.backend.base.Backend`): models in, NumPy's arrays in and out.

Enters: an `onnx.ModelProto` (or whatever `onnx.load` takes), and arrays. Leaves: arrays of the types that the file
names. `onnx.backend.test.BackendTest(rushlight.onnx.backend, __name__)` runs the standard's own cases. Refuses:
devices that are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad
from ..tensors.interop import as_tensor, from_numpy
from . import sessions
from .importing.checking import unsupported
from .importing.loading import ImportedModel, load, read
from .kinds import ELEMENTS, Element, Kind
from .model import Graph, Model, Node, Value


def is_available() -> bool:
    """Whether ONNX Runtime is installed, for `compile(backend="onnxrt")`."""
    return sessions.is_installed()


class BackendRep:
    """A model that is ready to run."""

    def __init__(self, module: ImportedModel, device: str) -> None:
        self.module, self.device = module, device

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The results for inputs in the graph's order, or a dict of them by name."""
        _no_options("run", options)
        names, kinds = self.module.arguments.names, self.module.arguments.kinds
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            many = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            if len(many) > len(names):
                raise TypeError(f"onnx: the model takes {len(names)} inputs ({', '.join(names)}), got {len(many)}")
            given = dict(zip(names, many, strict=False))
        known = dict(zip(names, kinds, strict=True))
        arguments = {name: to_value(v, known.get(name), self.device) for name, v in given.items()}
        with no_grad():
            found = self.module(**arguments)
        results = found if isinstance(found, tuple) else (found,)
        return tuple([to_array(v, kind) for v, kind in zip(results, self.module.result_kinds, strict=True)])


def prepare(model: Any, device: str = "CPU", **options: Any) -> BackendRep:
    """A model, ready to run on a device."""
    _no_options("prepare", options)
    return BackendRep(load(model, device=_device(device)), device)


def run_model(model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:
    """The results of a model for these inputs."""
    return prepare(model, device, **options).run(inputs)


def run_node(node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any) -> tuple[Any, ...]:
    """The results of one node, an `onnx.NodeProto`. `opset_version`: the version it is in; the newest by default."""
    from .importing.reader import read_model  # noqa: PLC0415
    from .importing.table import NEWEST  # noqa: PLC0415
    from .wire import Message  # noqa: PLC0415

    version = options.pop("opset_version", NEWEST[""])
    _no_options("run_node", options)
    graph = Message().data(1, node.SerializeToString())
    parsed = read_model(bytes(Message().integer(1, 10).message(7, graph)))
    single: Node = parsed.graph.nodes[0]
    given = inputs if isinstance(inputs, Mapping) else dict(zip([n for n in single.inputs if n], inputs, strict=True))
    values = {name: to_value(v, None, device) for name, v in given.items()}
    typed = [Value(name, None, None, Kind("tensor") if isinstance(v, _C.Tensor) else Kind("sequence"))
             for name, v in values.items()]
    record = Model(Graph("", typed, [Value(n, None) for n in single.outputs if n], [single]), version, 10,
                   {single.domain: NEWEST.get(single.domain, 1)} if single.domain else {})
    module = load(record, device=_device(device))
    with no_grad():
        found = module(**values)
    return tuple([to_array(v, None) for v in (found if isinstance(found, tuple) else (found,))])


def supports_device(device: str) -> bool:
    """CPU, and CUDA where there is one."""
    kind = device.partition(":")[0].lower()
    if kind == "cuda":
        from ..cuda import is_available as has_cuda  # noqa: PLC0415

        return has_cuda()
    return kind == "cpu"


def is_compatible(model: Any, device: str = "CPU", **options: Any) -> bool:
    """Whether every operator of a model is here."""
    return supports_device(device) and not unsupported(read(model))


def _device(device: str) -> Any:
    if not supports_device(device):
        raise RuntimeError(f"onnx.backend: there is no device {device!r} here; CPU is one")
    return device.lower()


def _no_options(where: str, options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"onnx.backend.{where}: {', '.join(options)}: there are no such options")


# --- arrays -----------------------------------------------------------------------------------------------------------


def to_value(value: Any, kind: Kind | None, device: str = "CPU") -> Any:
    """An array as a model takes it: narrow types as their carriers, strings as arrays of objects."""
    import numpy  # noqa: PLC0415

    if value is None:
        return None
    while kind is not None and kind.form == "optional":
        kind = kind.inner
    if isinstance(value, (list, tuple)) and (kind is None or kind.form != "tensor"):
        return [to_value(v, kind.inner if kind is not None else None, device) for v in value]
    if isinstance(value, _C.Tensor):
        return value.to(_device(device))
    array = numpy.asarray(value)
    if array.dtype.kind in "OUST":
        return array.astype(object)
    narrow = _named(array.dtype.name)
    if narrow is not None:
        array = array.astype(numpy.float32 if narrow.dtype is _C.float32 else (narrow.dtype.is_signed and numpy.int8)
                             or numpy.uint8) if narrow.is_packed else array
        if not narrow.is_packed:
            whole = numpy.ascontiguousarray(array).view(numpy.int16 if narrow.bits == 16 else numpy.uint8)
            return from_numpy(whole.reshape(array.shape)).view(narrow.dtype).to(_device(device))
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return as_tensor(array).to(_device(device))


def to_array(value: Any, kind: Kind | None) -> Any:
    """A result as an array of the type that the file names."""
    import numpy  # noqa: PLC0415

    while kind is not None and kind.form == "optional" and kind.inner is not None:
        kind = kind.inner
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [to_array(v, kind.inner if kind is not None else None) for v in value]
    if not isinstance(value, _C.Tensor):
        return value
    t = value.detach().cpu().contiguous()
    named = ELEMENTS.get(kind.number) if kind is not None and kind.form == "tensor" else None
    if named is not None and named.is_packed:
        return t.numpy().astype(_numpy_type(named))
    own = next((e for e in ELEMENTS.values() if e.dtype is t.dtype and not e.is_packed), None)
    if own is not None and own.numpy:
        bits = t.view(_C.int16 if own.bits == 16 else _C.uint8).numpy()
        return bits.view(_numpy_type(own)) if bits.ndim else numpy.asarray(bits).view(_numpy_type(own))
    return t.numpy()


def _named(name: str) -> Element | None:
    return next((e for e in ELEMENTS.values() if e.numpy and e.numpy == name), None)


def _numpy_type(kind: Element) -> Any:
    return getattr(sessions.optional("ml_dtypes", f"arrays of {kind.name.lower()}"), kind.numpy)


__all__: Sequence[str] = ["BackendRep", "is_available", "is_compatible", "prepare", "run_model", "run_node",
                          "supports_device"]
