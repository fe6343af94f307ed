"""Kernels that programs bring as text: jiterator, `_compile_kernel`, and parts of a card (green contexts)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

import rushlight as rl
from rushlight.cuda import jiterator

ONE = """template <typename T> T helper(T x) { return x * x; }
template <typename T> T k(T x, T y, T a) { return helper(x) + a * y; }"""
TWO = "template <typename T> void k(T x, T& a, T& b) { a = x + 1; b = x * 2; }"
needs_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.share(2)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool"])
def test_texts_compile(tmp_path, dtype):
    for number, text in enumerate((
        jiterator.kernel_text(ONE, "k", dtype, 2, 1, 1, False), jiterator.kernel_text(TWO, "k", dtype, 1, 2, 0, True),
    )):
        device = text.replace("template <typename T> ", "template <typename T> __device__ ")
        (tmp_path / f"{number}.cu").write_text(device)
        command = ["nvcc", "-arch=sm_90", "-cubin", "-o", "/dev/null", str(tmp_path / f"{number}.cu")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_templates_are_read():
    assert jiterator.create_jit_fn(ONE, a=1.0).name == "k"
    with pytest.raises(ValueError, match="template"):
        jiterator.create_jit_fn("float k(float x) { return x; }")
    with pytest.raises(ValueError, match="num_outputs=9"):
        jiterator.create_multi_output_jit_fn(TWO, 9)


@needs_card
def test_jiterator():
    f = jiterator.create_jit_fn(ONE, a=2.0)
    x, y = rl.arange(6.0, device="cuda").view(2, 3), rl.ones(3, device="cuda", dtype=rl.float64)
    assert f(x, y).tolist() == [[2, 3, 6], [11, 18, 27]] and f(x, y).dtype is rl.float64
    assert f(x.t(), x.t(), a=1).tolist() == (x * x + x).t().tolist()
    assert f(x.half(), x.half()).dtype is rl.float16
    a, b = jiterator.create_multi_output_jit_fn(TWO, 2)(rl.arange(3, device="cuda"))
    assert a.tolist() == [1, 2, 3] and b.tolist() == [0, 2, 4]
    with pytest.raises(KeyError, match="beta"):
        f(x, y, beta=1)
    with pytest.raises(RuntimeError, match="CUDA"):
        f(x, rl.ones(3))
    with pytest.raises(NotImplementedError, match="complex64"):
        f(x, x + 1j)


@needs_card
def test_compile_kernel():
    text = """__global__ void add(const float* a, float* b, long long n, double c) {
      if (threadIdx.x < n) b[threadIdx.x] = a[threadIdx.x] + c;
    }"""
    add = rl.cuda._compile_kernel(text, "add")
    a, b = rl.arange(100.0, device="cuda"), rl.zeros(100, device="cuda")
    add(grid=(1, 1, 1), block=(128, 1, 1), args=[a, b, ctypes.c_longlong(50), 0.5])
    assert b[:50].tolist() == (a[:50] + 0.5).tolist() and not b[50:].any()
    with pytest.raises(TypeError, match="str"):
        add(args=["a"])
    with pytest.raises(ValueError, match="pinned"):
        add(args=[rl.ones(3)])
    with pytest.raises(RuntimeError, match="set_shared_memory_config"):
        add(args=[a, b, ctypes.c_longlong(1), 0.5], shared_mem=100_000)
    with pytest.raises(RuntimeError, match="nvrtc"):
        rl.cuda._compile_kernel("this is no kernel", "add")
    rl.cuda._sleep(1000)


@needs_card
def test_some_multiprocessors():
    part = rl.cuda.GreenContext.create(num_sms=16)
    x = rl.ones(1000, device="cuda")
    part.set_context()
    y = (x * 3).sum()
    part.pop_context()
    assert float(y + 1) == 3001 and part.Stream().query() in (True, False)
    with pytest.raises(RuntimeError, match="not set"):
        part.pop_context()
    with pytest.raises(RuntimeError, match="num_sms"):
        rl.cuda.GreenContext.create(num_sms=100_000)
    with pytest.raises(NotImplementedError, match="workqueue"):
        rl.cuda.GreenContext.create(workqueue_scope="balanced")


@pytest.mark.skipif(rl.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_card():
    for call in (lambda: rl.cuda.GreenContext.create(num_sms=4), lambda: rl.cuda._compile_kernel("x", "x"),
                 lambda: jiterator.create_jit_fn(ONE, a=1.0)(rl.ones(3), rl.ones(3))):
        with pytest.raises(AssertionError, match="CUDA"):
            call()
