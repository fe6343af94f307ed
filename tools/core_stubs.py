"""What the stubs say of the classes written in C++: their members are known to the core alone,
so they are typed here by hand.

tools/make_stubs.py puts this text into rushlight/__init__.pyi and takes Tensor's members from TENSOR_MEMBERS; it fails
on a member that the core does not have.
"""

from __future__ import annotations

CLASSES = {
    "dtype": '''
class dtype:
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    itemsize: builtins.int
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...
''',
    "device": '''
class device:
    type: builtins.str
    index: builtins.int | None
    def __init__(self, type: builtins.str | builtins.int | device, index: builtins.int | None = None) -> None: ...
    def __enter__(self) -> device: ...
    def __exit__(self, *exc: object) -> None: ...
    def __call__(self, function: _F) -> _F: ...
''',
    "Size": '''
class Size(tuple[builtins.int, ...]):
    def __new__(cls, sizes: Iterable[builtins.int] = ...) -> Size: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> builtins.int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    @overload
    def __add__(self, other: tuple[builtins.int, ...]) -> Size: ...  # type: ignore[overload-overlap]
    @overload
    def __add__(self, other: tuple[_E, ...]) -> tuple[builtins.int | _E, ...]: ...  # type: ignore[override]
    def __mul__(self, count: SupportsIndex) -> Size: ...
    def __rmul__(self, count: SupportsIndex) -> Size: ...
    def numel(self) -> builtins.int: ...
''',
    "Generator": '''
class Generator:
    device: _device
    def __init__(self, device: _device | builtins.str | None = None) -> None: ...
    def manual_seed(self, seed: builtins.int) -> Generator: ...
    def seed(self) -> builtins.int: ...
    def initial_seed(self) -> builtins.int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor) -> Generator: ...
''',
}

# Inside the class, where members called `dtype` and `device` hide the classes.
TENSOR_MEMBERS = {
    "shape": "shape: Size",
    "dtype": "dtype: _dtype",
    "device": "device: _device",
    "layout": "layout: _layout",
    "grad": "grad: Tensor | None",
    "grad_fn": "grad_fn: Any",
    "data": "data: Tensor",
    "T": "T: Tensor",
    "H": "H: Tensor",
    "mT": "mT: Tensor",
    "mH": "mH: Tensor",
    "real": "real: Tensor",
    "imag": "imag: Tensor",
    "requires_grad": "requires_grad: builtins.bool",
    "names": "names: Sequence[builtins.str | None]",
    "name": "name: builtins.str | None",
    "ndim": "ndim: builtins.int",
    "itemsize": "itemsize: builtins.int",
    "nbytes": "nbytes: builtins.int",
    "output_nr": "output_nr: builtins.int",
    "backward": (
        "def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool | None = None, create_graph:"
        " builtins.bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None: ..."
    ),
    "data_ptr": "def data_ptr(self) -> builtins.int: ...",
    "detach": "def detach(self) -> Tensor: ...",
    "detach_": "def detach_(self) -> Tensor: ...",
    "dim": "def dim(self) -> builtins.int: ...",
    "ndimension": "def ndimension(self) -> builtins.int: ...",
    "element_size": "def element_size(self) -> builtins.int: ...",
    "is_complex": "def is_complex(self) -> builtins.bool: ...",
    "is_floating_point": "def is_floating_point(self) -> builtins.bool: ...",
    "is_inference": "def is_inference(self) -> builtins.bool: ...",
    "is_signed": "def is_signed(self) -> builtins.bool: ...",
    "item": "def item(self) -> Any: ...",
    "nelement": "def nelement(self) -> builtins.int: ...",
    "numel": "def numel(self) -> builtins.int: ...",
    "requires_grad_": "def requires_grad_(self, requires_grad: builtins.bool = True) -> Self: ...",
    "retain_grad": "def retain_grad(self) -> None: ...",
    "storage_offset": "def storage_offset(self) -> builtins.int: ...",
    "size": (
        "@overload\ndef size(self, dim: None = None) -> Size: ...\n@overload\ndef size(self, dim: builtins.int) ->"
        " builtins.int: ..."
    ),
    "stride": (
        "@overload\ndef stride(self, dim: None = None) -> tuple[builtins.int, ...]: ...\n@overload\ndef stride(self,"
        " dim: builtins.int) -> builtins.int: ..."
    ),
    "tolist": "def tolist(self) -> Any: ...",
    "untyped_storage": "def untyped_storage(self) -> UntypedStorage: ...",
    "numpy": "def numpy(self, *, force: builtins.bool = False) -> Any: ...",
}

# The language's own protocols, and operators in forms that ops do not have.
TENSOR_PROTOCOLS = '''
def __len__(self) -> builtins.int: ...
def __bool__(self) -> builtins.bool: ...
def __int__(self) -> builtins.int: ...
def __float__(self) -> builtins.float: ...
def __complex__(self) -> builtins.complex: ...
def __index__(self) -> builtins.int: ...
def __contains__(self, element: Any) -> builtins.bool: ...
def __iter__(self) -> Iterator[Tensor]: ...
def __reversed__(self) -> Tensor: ...
def __hash__(self) -> builtins.int: ...
def __getitem__(self, index: Any) -> Tensor: ...
def __setitem__(self, index: Any, value: Any) -> None: ...
def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> Any: ...
'''

# Ops whose results their schema cannot say: how many tensors they give depends on an argument.
RESULTS = {"unique": "Any", "unique_consecutive": "Any", "item": "Any", "tolist": "Any"}
