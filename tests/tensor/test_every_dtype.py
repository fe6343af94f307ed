"""Every dtype through every path that names a type or converts an element: an answer or a plain refusal,
never a crash."""

import copy
import pickle
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import _C

DTYPES = sorted((value for value in vars(_C).values() if isinstance(value, rl.dtype)), key=lambda d: d.id)
REFUSALS = (TypeError, RuntimeError, ValueError, BufferError)   # NotImplementedError is a RuntimeError


def _set_text(x):
    x[0] = "s"


PATHS = {
    "set text": _set_text,
    "set number": lambda x: x.__setitem__(0, 1),
    "set complex": lambda x: x.__setitem__(0, 1j),
    "set tensor": lambda x: x.__setitem__(0, rl.tensor(1.0)),
    "set masked": lambda x: x.__setitem__(rl.tensor([True, False, True]), 1),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "repr": repr,
    "type": lambda x: x.type(),
    "type float": lambda x: x.type("FloatTensor"),
    "legacy name": lambda x: x.dtype.legacy_name,
    "new": lambda x: x.new(2),
    "numpy": lambda x: x.numpy(),
    "dlpack": lambda x: rl.from_dlpack(x),
    "buffer": lambda x: memoryview(x.untyped_storage()),
    "fill": lambda x: x.fill_(1),
    "full": lambda x: rl.full((2,), 1, dtype=x.dtype),
    "tensor": lambda x: rl.tensor([0, 1], dtype=x.dtype),
    "tensor of text": lambda x: rl.tensor(["a"], dtype=x.dtype),
    "clone": lambda x: x.clone(),
    "copy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "to float": lambda x: x.to(rl.float32),
    "from float": lambda x: rl.zeros(3).to(x.dtype),
    "view bytes": lambda x: x.view(rl.uint8),
    "storage": lambda x: x.storage(),
    "typed storage": lambda x: x.storage().dtype,
    "add": lambda x: x + x,
    "add number": lambda x: x + 1,
    "add float": lambda x: x + 1.5,
    "equal": lambda x: rl.equal(x, x),
    "sum": lambda x: x.sum(),
    "cat": lambda x: rl.cat([x, x]),
    "sort": lambda x: x.sort(),
    "index": lambda x: x[rl.tensor([0, 2])],
    "finfo": lambda x: rl.finfo(x.dtype) if x.dtype.is_floating_point else rl.iinfo(x.dtype),
    "int": lambda x: int(x[0]),
    "bool": lambda x: bool(x[0]),
    "complex": lambda x: complex(x[0]),
    "format": lambda x: f"{x[0]}",
    "random": lambda x: x.random_(),
    "uniform": lambda x: x.uniform_(),
    "promote": lambda x: [rl.promote_types(x.dtype, d) for d in (rl.bool, rl.int32, rl.float32, rl.complex64)],
    "can cast": lambda x: [rl.can_cast(x.dtype, d) for d in DTYPES],
    "real": lambda x: (x.dtype.to_real(), x.dtype.to_complex()),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_path_answers_or_refuses(dtype):
    for name, path in PATHS.items():
        x = rl.empty(3, dtype=dtype)
        x.untyped_storage().fill_(0)
        try:
            path(x)
        except REFUSALS:
            pass
        except Exception as wrong:
            pytest.fail(f"{name} of {dtype}: {wrong!r}")


@pytest.mark.slow
def test_every_pair_of_dtypes_converts_or_refuses(share):
    taken = share([dtype.name for dtype in DTYPES], 3)
    for a in (dtype for dtype in DTYPES if dtype.name in taken):
        x = rl.empty(3, dtype=a)
        x.untyped_storage().fill_(0)
        for b in DTYPES:
            try:
                x.to(b)
                rl.empty(3, dtype=b).copy_(x)
            except REFUSALS:
                pass


def test_assigning_text_names_the_type():
    with pytest.raises(TypeError, match="can't assign a str to a rushlight.ComplexHalfTensor"):
        rl.empty(3, dtype=rl.complex32)[0] = "s"


def test_type_names_are_pytorchs():
    torch = pytest.importorskip("torch")
    for dtype in DTYPES:
        if hasattr(torch, dtype.name):
            theirs = torch.empty(1, dtype=getattr(torch, dtype.name)).type()
            assert rl.empty(1, dtype=dtype).type() == theirs.replace("torch.", "rushlight.", 1)


def test_all_dtypes_in_a_process_of_their_own():
    """The reproducer as it was reported: a crash must not take the test run with it."""
    code = (
        "import rushlight as rl\nfor d in (rl.complex32, rl.bits16, rl.uint7):\n    x = rl.empty(3, dtype=d)\n   "
        " try:\n        x[0] = 's'\n    except TypeError:\n        pass"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
