"""CUDA sources of extensions: built with nvcc wherever that is, called where there is a card."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.cxx import build
from rushlight.utils import cpp_extension

pytestmark = [
    pytest.mark.slow,  # nvcc runs
    pytest.mark.skipif(build.cuda_home() is None, reason="needs nvcc and CUDA's headers"),
]
needs_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")

FACE = """
at::Tensor scaled_sum(const at::Tensor& a, const at::Tensor& b, double scale);
"""
KERNELS = r"""
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

template <class T>
using Matrix = at::PackedTensorAccessor32<T, 2>;

template <class T>
__global__ void scaled_sum_kernel(Matrix<T> a, Matrix<T> b, Matrix<T> out, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, columns = out.size(1);
  if (i >= out.size(0) * columns) return;
  const int row = i / columns, column = i % columns;
  out[row][column] = a[row][column] + b[row][column] * static_cast<T>(scale);
}

at::Tensor scaled_sum(const at::Tensor& a, const at::Tensor& b, double scale) {
  TORCH_CHECK_VALUE(a.is_cuda() && b.is_cuda(), "scaled_sum: expected CUDA tensors, got ", a.device());
  TORCH_CHECK_VALUE(a.dim() == 2 && a.sizes() == b.sizes(), "scaled_sum: expected two matrices of one size");
  const c10::cuda::CUDAGuard guard(a.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  at::Tensor out = at::empty_like(a);
  const int blocks = (static_cast<int>(out.numel()) + 255) / 256;
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(a.scalar_type(), "scaled_sum", [&] {
    scaled_sum_kernel<scalar_t><<<blocks, 256, 0, stream>>>(
        a.packed_accessor32<scalar_t, 2>(), b.packed_accessor32<scalar_t, 2>(),
        out.packed_accessor32<scalar_t, 2>(), static_cast<float>(scale));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    pytest.importorskip("pybind11")
    patch = pytest.MonkeyPatch()
    if not rl.cuda.is_available():
        patch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")      # nvcc asks the cards otherwise
    try:
        return cpp_extension.load_inline("cuda_sums", FACE, KERNELS, functions=["scaled_sum"], extra_cflags=["-O0"],
                                         build_directory=tmp_path_factory.mktemp("cuda"))
    finally:
        patch.undo()


def test_cuda_sources_are_built_and_imported(own):
    with pytest.raises(ValueError, match="expected CUDA tensors, got cpu"):
        own.scaled_sum(rl.ones(2, 2), rl.ones(2, 2), 1.0)


@needs_card
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.float16])
def test_kernels_of_an_extension_run_on_the_current_stream(own, dtype):
    a, b = rl.randn(300, 70, device="cuda").to(dtype), rl.randn(70, 300, device="cuda").to(dtype).t()
    stream = rl.cuda.Stream()
    stream.wait_stream(rl.cuda.current_stream())
    with rl.cuda.stream(stream):
        found = own.scaled_sum(a, b, 2.0)
    stream.synchronize()
    rl.testing.assert_close(found, a + b * 2)


@needs_card
def test_types_without_a_kernel_are_refused(own):
    with pytest.raises(NotImplementedError, match="scaled_sum"):
        own.scaled_sum(rl.ones(2, 2, device="cuda", dtype=rl.int64), rl.ones(2, 2, device="cuda", dtype=rl.int64), 1.0)
