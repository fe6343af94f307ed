"""Products on GPUs without a library: tiles in registers, which ptxas takes; what they compute is run on the host."""

import shutil
import subprocess

import pytest

import rushlight as R
from rushlight import codegen
from rushlight.codegen.schedule import schedule
from rushlight.loops.inline import inline
from rushlight.op import ops
from tests.devices.reference_device import ReferenceDevice

pytestmark = pytest.mark.share(2)   # of each test that has several cases


class ManyThreads(ReferenceDevice):
    """The reference device, scheduled as a GPU is; remembers what it was given."""

    scheduler = "gpu"

    def __init__(self) -> None:
        super().__init__("manythreads")
        self.names: list[str] = []

    def load(self, nest):
        self.names.append(nest.name)
        return super().load(nest)


DEVICE = ManyThreads()
R.devices.register(DEVICE)


def lowered(name, *args):
    """The Lowered of a call whose other arguments are the defaults."""
    definition = ops[name].overload_list[0].definition
    return definition.lower((*args, *[p.default for p in definition.spec.params[len(args) :]]))


@pytest.mark.parametrize("dtype", [R.float32, R.float64, R.bfloat16, R.int64, R.complex64], ids=lambda d: d.name)
@pytest.mark.parametrize("shapes", [((37, 20), (20, 150)), ((2, 16, 30), (2, 30, 17)), ((5, 7, 9), (9, 40)),
                                    ((4, 6), (6, 3)), ((16, 0), (0, 20))], ids=str)
def test_matmul(shapes, dtype):
    a, b = ((R.randn(*s) * 5).to(dtype) for s in shapes)
    got = a.to("manythreads") @ b.to("manythreads")
    expected = (a.to(R.complex128) @ b.to(R.complex128)) if dtype.is_complex else a.double() @ b.double()
    tolerance = {"rtol": 1e-2, "atol": 1e-1} if dtype is R.bfloat16 else {"rtol": 1e-4, "atol": 1e-3}
    R.testing.assert_close(got.cpu(), expected.to(dtype), **tolerance)


def test_transposed_operands_and_addends():
    a, b, c = R.randn(20, 37), R.randn(150, 20), R.randn(150)
    x, y, z = (t.to("manythreads") for t in (a, b, c))
    R.testing.assert_close((x.t() @ y.t()).cpu(), a.t() @ b.t())
    R.testing.assert_close(R.addmm(z, x.t(), y.t(), alpha=2).cpu(), R.addmm(c, a.t(), b.t(), alpha=2))
    R.testing.assert_close(R.nn.functional.linear(x.t().contiguous(), y, z).cpu(), a.t() @ b.t() + c)
    assert {"matmul_tiles", "addmm_addend_tiles", "linear_addend_tiles"} <= set(DEVICE.names)


@pytest.mark.parametrize("dtype", [R.float32, R.bfloat16, R.float64], ids=lambda d: d.name)
def test_ptxas_takes_the_tiles(dtype, tmp_path):
    a, b, bias = R.randn(64, 300).to(dtype), R.randn(300, 90).to(dtype), R.randn(90).to(dtype)
    product = inline(lowered("add", a @ b, bias), 0, lowered("mm", a, b))
    product = inline(lowered("relu", a @ b), 0, product)
    (launch,) = schedule(product, "cuda").launches
    text = codegen.emit_asm(launch.nest(), "nvptx64")
    assert text.count("fma.rn") >= 16
    if shutil.which("ptxas"):
        (tmp_path / "kernel.ptx").write_text(text)
        done = subprocess.run(["ptxas", "-arch=sm_90", "-v", str(tmp_path / "kernel.ptx"), "-o", str(tmp_path / "out")],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr
