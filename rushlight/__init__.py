"""Rushlight: the PyTorch system, Python-first. Public names only; no logic lives here."""

import gc as _gc
import importlib as _importlib
import sys as _sys

# Thousands of objects are made now, all of them to stay:
# looking for garbage among them would take a tenth of the import.
_collects = _gc.isenabled()
_gc.disable()

# A checkout in which nothing was built. (tools/make_tables.py brings the core it was given along.)
if not all(
    any(_finder.find_spec(f"{__name__}.{_part}", __path__) for _finder in _sys.meta_path) for _part in ("_C", "_extras")
):
    from .base import core_finder as _core_finder

    _core_finder.use_installed_copy(__path__)

from .base import homes as _homes
from .torch_names import home_rows as _home_rows

_homes.install(_home_rows.ROWS, _home_rows.INTERNAL, _home_rows.NOT_ALIASED, _home_rows.FORMER, _home_rows.OLDER)

from . import (  # noqa: F401
    _C,
    _extras,  # adds its names to those of _C: before anything that takes them from there
    autograd,
    definitions as _definitions,
    dispatch as _dispatch,
    op,
    ops,
    version as _version,
    wiring as _wiring,
)
from ._C import (
    Generator,
    Tensor,
    UntypedStorage,
    bfloat16,
    bool,  # noqa: A004
    complex32,
    complex64,
    complex128,
    default_generator,
    device,
    dtype,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    set_num_threads,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .aten import namespaces as _namespaces
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .base import (  # noqa: F401
    core_modules as _core_modules,
    dtype as _dtype,
    late as _late,
    logs as _logs,
    tracebacks as _tracebacks,
)
from .base.assertions import PUBLIC as _ASSERTIONS
from .base.dtype import ALL as _DTYPES, finfo, iinfo
from .base.promotion import can_cast, default_dtype as get_default_dtype, promote_types, result_type, set_default_dtype
from .base.settings import (
    are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_warn_always,
    use_deterministic_algorithms,
)
from .base.shape import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from .devices import default_device as get_default_device, set_default_device
from .dispatch import overrides as _overrides
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .tensors import methods as _tensor_methods  # noqa: F401
from .tensors.interop import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, tensor, to_dlpack
from .tensors.legacy_types import TYPES as _LEGACY_TYPES
from .tensors.plain_functions import (
    _has_compatible_shallow_copy_type,  # noqa: F401
    allclose,
    as_strided_,
    broadcast_shapes,
    broadcast_tensors,
    detach,
    detach_,
    equal,
    get_device,
    is_complex,
    is_conj,
    is_distributed,
    is_floating_point,
    is_inference,
    is_neg,
    is_nonzero,
    is_same_size,
    is_signed,
    is_storage,
    is_tensor,
    numel,
    resize_as_,
    set_default_tensor_type,
    typename,
    zero_,
)
from .tensors.storages import STORAGE_DTYPES as _STORAGE_NAMES, TypedStorage

__version__ = _version.TorchVersion(_version.__version__)

float = float32  # noqa: A001
double = float64
half = float16
short = int16
int = int32  # noqa: A001
long = int64
chalf = complex32
cfloat = complex64
cdouble = complex128

inf = 1e999
nan = inf - inf
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None
has_lapack = has_openmp = has_spectral = True
has_mkl = False
legacy_contiguous_format = contiguous_format
StorageBase = UntypedStorage
bit = _C.uint1

_late.provide({"package": ""})
op.publish(Tensor)
_homes.settle_module(_C)
_core_modules.register(__name__)
_namespaces.install()
_overrides.install()
_dispatch.install()
_tracebacks.install()
globals().update(_DTYPES)
globals().update(_LEGACY_TYPES)
globals().update(_ASSERTIONS)
globals().update(op.published(""))

# What programs take from torch._C and is Python here; torch.torch is torch.
_C.__getattr__ = _late.rest(_C.__name__, f"{__name__}.torch_names.core_names")
torch = _sys.modules[__name__]

if _collects:
    _gc.enable()

# One name per line: branches that add some do not collide.
_SUBPACKAGES = frozenset((
    "_decomp",
    "_dynamo",
    "_export",
    "_functorch",
    "_higher_order_ops",
    "_inductor",
    "_jit_internal",
    "_library",
    "_logging",
    "_ops",
    "_prims_common",
    "_subclasses",
    "_utils",
    "__config__",
    "accelerator",
    "amp",
    "backends",
    "ao",
    "codegen",
    "classes",
    "compat",
    "compiler",
    "cpu",
    "cuda",
    "datasets",
    "devices",
    "distributed",
    "distributions",
    "export",
    "fake",
    "fft",
    "func",
    "functional",
    "functorch",
    "futures",
    "fx",
    "hub",
    "jit",
    "library",
    "linalg",
    "loops",
    "masked",
    "mps",
    "mtia",
    "multiprocessing",
    "nested",
    "nn",
    "numa",
    "onnx",
    "optim",
    "monitor",
    "overrides",
    "package",
    "planners",
    "profiler",
    "quantization",
    "quasirandom",
    "random",
    "return_types",
    "serialization",
    "signal",
    "sparse",
    "special",
    "storage",
    "testing",
    "torch_version",
    "types",
    "utils",
    "version",
    "xpu",
))


# Single names and the subpackage each is imported from at first use.
_LAZY_NAMES = {
    "vmap": "func",
    "compile": "compiler.driver",
    "SymInt": "fake",
    "SymFloat": "fake",
    "SymBool": "fake",
    "OutOfMemoryError": "cuda",
    "AcceleratorError": "cuda",
    "TorchVersion": "version",
    **dict.fromkeys(
        ("PyTorchFileReader", "PyTorchFileWriter", "DispatchKey", "DisableTorchFunctionSubclass"),
        "torch_names.core_names",
    ),
    "GradScaler": "amp",
    "DisableTorchFunction": "torch_names.core_names",
    "DispatchKeySet": "torch_names.core_names",
    "FileCheck": "testing._file_check",
    "fork": "jit",
    "wait": "jit",
    "ThroughputBenchmark": "utils.throughput_benchmark",
    "cond": "_higher_order_ops",
    "while_loop": "_higher_order_ops",
    "Stream": "torch_names.streams",
    "Event": "torch_names.streams",
    "get_device_module": "accelerator",
    "_register_device_module": "accelerator",
    "save": "serialization",
    "load": "serialization",
    **dict.fromkeys((*_STORAGE_NAMES, "Storage"), "storage"),
    "einsum": "definitions.products.einsum",
    "get_printoptions": "tensors.printing",
    "set_printoptions": "tensors.printing",
    "autocast": "amp",
    "Future": "futures",
    "ScriptModule": "jit",
    "ScriptFunction": "jit",
    "ScriptObject": "quantized.packed",
    **dict.fromkeys(
        (
            "autocast_decrement_nesting",
            "autocast_increment_nesting",
            "clear_autocast_cache",
            "get_autocast_cpu_dtype",
            "get_autocast_dtype",
            "get_autocast_gpu_dtype",
            "get_autocast_ipu_dtype",
            "get_autocast_xla_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "is_autocast_enabled",
            "is_autocast_ipu_enabled",
            "is_autocast_xla_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype",
            "set_autocast_cpu_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
            "set_autocast_gpu_dtype",
            "set_autocast_ipu_dtype",
            "set_autocast_ipu_enabled",
            "set_autocast_xla_dtype",
            "set_autocast_xla_enabled",
        ),
        "dispatch.autocast",
    ),
}

__getattr__, __dir__ = _late.names(
    globals(), _LAZY_NAMES, _SUBPACKAGES, rest=("torch_names.rare", "base.quantizers", "torch_names.unbuilt")
)

_logs.start()
