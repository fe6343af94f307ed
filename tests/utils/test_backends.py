"""backends, accelerator, cpu, __config__, and defaults of dtype and device: what programs ask and set."""

from __future__ import annotations

import threading

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SUBMODULES = "cpu cuda cudnn cusparselt kleidiai mha miopen mkl mkldnn mps nnpack openmp opt_einsum quantized".split()


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_have_pytorchs_names(name):
    theirs, mine = getattr(torch.backends, name), getattr(rl.backends, name)
    public = [n for n in ("is_available", "is_built", "version", "flags", "set_flags", "enabled", "benchmark",
                          "deterministic", "allow_tf32", "engine", "verbose", "get_cpu_capability", "matmul", "conv",
                          "fp32_precision", "get_fastpath_enabled") if hasattr(theirs, n)]
    assert [n for n in public if not hasattr(mine, n)] == []


def test_nothing_claims_to_be_here():
    for name in ("cudnn", "kleidiai", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp", "cusparselt"):
        assert getattr(rl.backends, name).is_available() is False
    assert not rl.backends.cuda.is_built()
    assert not rl.accelerator.is_available()
    assert rl.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="none is available"):
        rl.accelerator.synchronize()


def test_switches_are_kept_and_checked():
    cudnn = rl.backends.cudnn
    cudnn.benchmark = True
    try:
        assert cudnn.benchmark is True
        with cudnn.flags(enabled=False, benchmark=False, deterministic=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, True, False)
        assert cudnn.set_flags(_benchmark=False)[:2] == (True, True)
    finally:
        cudnn.benchmark = False
    with pytest.raises(RuntimeError, match="must be of type bool"):
        cudnn.enabled = "yes"
    with pytest.raises(RuntimeError, match="expected one of none, fbgemm"):
        rl.backends.quantized.engine = "abacus"
    with pytest.raises(AttributeError):
        rl.backends.cuda.matmul.allow_everything = True
    rl.backends.cuda.matmul.allow_tf32 = True
    assert rl.backends.cuda.matmul.allow_tf32 is True
    rl.backends.cuda.matmul.allow_tf32 = False


def test_precisions_are_inherited():
    try:
        rl.backends.fp32_precision = "tf32"
        assert rl.backends.cudnn.conv.fp32_precision == rl.backends.mkldnn.matmul.fp32_precision == "tf32"
        rl.backends.mkldnn.matmul.fp32_precision = "bf16"
        assert rl.backends.mkldnn.matmul.fp32_precision == "bf16"
        with pytest.raises(RuntimeError):
            rl.backends.fp32_precision = "fp4"
    finally:
        rl.backends.fp32_precision = rl.backends.mkldnn.matmul.fp32_precision = "none"


def test_attention_switches_reach_attention():
    q = rl.randn(1, 1, 4, 8)
    assert rl.backends.cuda.math_sdp_enabled()
    with (
        pytest.warns(FutureWarning),
        rl.backends.cuda.sdp_kernel(
            enable_math=False, enable_flash=False, enable_mem_efficient=False, enable_cudnn=False
        ),
    ):
        with pytest.raises(RuntimeError):
            rl.nn.functional.scaled_dot_product_attention(q, q, q)
    assert rl.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape


def test_capability_is_pytorchs():
    assert rl.backends.cpu.get_cpu_capability().startswith(torch.backends.cpu.get_cpu_capability()[:3])


def test_config_describes_the_build():
    assert "OpenBLAS" in rl.__config__.show()
    assert f"get_num_threads() : {rl.get_num_threads()}" in rl.__config__.parallel_info()


def test_cpu_answers_as_a_device():
    assert (rl.cpu.is_available(), rl.cpu.device_count(), rl.cpu.current_device()) == (True, 1, "cpu")
    rl.cpu.synchronize()
    with rl.cpu.stream(rl.cpu.Stream()):
        assert rl.cpu.current_stream() is rl.cpu.current_stream()
    assert rl.cpu.get_capabilities()["architecture"]


FACTORIES = {
    "ones": (2,), "zeros": (2,), "empty": (2,), "rand": (2,), "randn": (2,), "randint": (3, (2,)), "randperm": (3,),
    "arange": (3,), "linspace": (0, 1, 3), "eye": (2,), "full": ((2,), 1.0), "tensor": ([1.0],), "as_tensor": ([1.0],),
    "asarray": ([1.0],), "hann_window": (3,), "scalar_tensor": (1.0,),
    "empty_strided": ((2,), (1,)), "logspace": (0, 1, 3), "kaiser_window": (3,), "tril_indices": (2, 2),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_device_is_a_context(name):
    with rl.device("meta"):
        assert getattr(rl, name)(*FACTORIES[name]).device.type == "meta"
        with rl.device("cpu"):
            assert getattr(rl, name)(*FACTORIES[name]).device.type == "cpu"
        assert getattr(rl, name)(*FACTORIES[name], device="cpu").device.type == "cpu"
    assert getattr(rl, name)(*FACTORIES[name]).device.type == "cpu"


def test_modules_are_made_on_the_default_device():
    with rl.device("meta"):
        layer = rl.nn.Linear(2, 3)
        assert rl.get_default_device() == rl.device("meta")
    assert layer.weight.is_meta
    with pytest.raises(ZeroDivisionError), rl.device("meta"):
        1 / 0
    assert rl.get_default_device() == rl.device("cpu")


def test_default_dtype_comes_back():
    half = rl.arange(3) / 2
    rl.set_default_dtype(rl.float64)
    try:
        assert (rl.arange(3) / 2).dtype is rl.ones(1).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)
    assert (rl.arange(3) / 2).dtype is half.dtype is rl.float32


def test_threads_can_be_set():
    before = rl.get_num_threads()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(rl.get_num_threads()))
    try:
        rl.set_num_threads(1)
        assert rl.get_num_threads() == 1
    finally:
        rl.set_num_threads(before)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_module_of_a_device():
    assert rl.get_device_module("cpu:0") is rl.get_device_module() is rl.get_device_module(rl.device("cpu")) is rl.cpu
    assert rl.get_device_module("cuda") is rl.cuda
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        rl.get_device_module(3)
