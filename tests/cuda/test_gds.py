"""Files read into a GPU's memory through cuFile: against a library without a device behind it, and on a card."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rushlight as rl
from tests.cuda.test_philox import on_card
from tests.cuda.test_simulated_driver import CC, HERE, driver, run

__all__ = ["driver"]


def can_open_directly(folder) -> bool:
    try:
        os.close(os.open(folder / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


@pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
def test_files_are_read_and_written(driver, tmp_path):
    if not can_open_directly(tmp_path):
        pytest.skip("the file system has no direct access")
    library = tmp_path / "libcufile.so.0"
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "simulated_cufile.c")], check=True)
    run(driver, f"""
import os
from rushlight.cuda.gds import GdsFile, gds_deregister_buffer, gds_register_buffer

def fails(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise SystemExit("nothing was raised")

path = {str(tmp_path / "data.bin")!r}
x = rl.arange(1000.0).cuda()
storage = x.untyped_storage()
fails(RuntimeError, "nvidia-cufile", lambda: gds_register_buffer(storage))
libraries.places = lambda names: [{str(library)!r}] if "cufile" in names[0] else []
cufile = ctypes.CDLL({str(library)!r})
cufile.simulated_failing(5007)
fails(RuntimeError, "platform is not supported (5007)", lambda: gds_register_buffer(storage))
cufile.simulated_failing(0)
gds_register_buffer(storage)
assert cufile.simulated_buffers() == 1
gds_deregister_buffer(storage)
fails(RuntimeError, "not registered (5024)", lambda: gds_deregister_buffer(storage))

file = GdsFile(path, os.O_CREAT | os.O_RDWR)
cufile.simulated_most.argtypes = [ctypes.c_size_t]
cufile.simulated_most(1500)                                # cuFile may do a part
file.save_storage(storage)
file.save_storage(rl.arange(7).cuda().untyped_storage(), offset=4000)
assert os.path.getsize(path) == 4056 and cufile.simulated_files() == 1
y, z = rl.zeros(1000).cuda(), rl.zeros(7, dtype=rl.int64).cuda()
file.load_storage(y.untyped_storage())
file.load_storage(z.untyped_storage(), 4000)
assert (y.cpu() == x.cpu()).all() and z.cpu().tolist() == list(range(7))
fails(RuntimeError, "the file has 2056", lambda: file.load_storage(y.untyped_storage(), 2000))
fails(RuntimeError, "0 or more", lambda: file.load_storage(y.untyped_storage(), -1))
fails(RuntimeError, "on a GPU", lambda: file.save_storage(rl.ones(3).untyped_storage()))
fails(TypeError, "untyped_storage()", lambda: file.save_storage(x))
cufile.simulated_failing(5)
fails(RuntimeError, "cuFileWrite failed", lambda: file.save_storage(storage))
cufile.simulated_failing(0)
fails(AssertionError, "already", file.register_handle)
file.deregister_handle()
fails(AssertionError, "not registered", file.deregister_handle)
fails(AssertionError, "not registered", lambda: file.load_storage(y.untyped_storage()))
file.register_handle()
number = file.fd
del file
assert cufile.simulated_files() == 0
fails(OSError, "", lambda: os.fstat(number))
fails(FileNotFoundError, "", lambda: GdsFile(path + ".none", os.O_RDONLY))
""")


def test_without_a_device(tmp_path):
    if rl.cuda.is_available() or not can_open_directly(tmp_path):
        pytest.skip("there is a device, or no direct access")
    with pytest.raises(RuntimeError, match="CUDA"):
        rl.cuda.gds.GdsFile(str(tmp_path / "a"), os.O_CREAT | os.O_RDWR)


@on_card
def test_files_on_a_card(tmp_path):
    if not can_open_directly(tmp_path):
        pytest.skip("the file system has no direct access")
    x = rl.randn(1 << 18, device="cuda")
    try:
        file = rl.cuda.gds.GdsFile(str(tmp_path / "data.bin"), os.O_CREAT | os.O_RDWR)
    except RuntimeError as error:
        pytest.skip(str(error))
    rl.cuda.gds.gds_register_buffer(x.untyped_storage())
    file.save_storage(x.untyped_storage(), offset=8192)
    rl.cuda.gds.gds_deregister_buffer(x.untyped_storage())
    y = rl.zeros_like(x)
    file.load_storage(y.untyped_storage(), offset=8192)
    assert rl.equal(x, y)
