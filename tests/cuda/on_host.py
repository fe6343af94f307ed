"""Kernels in CUDA C whose threads meet at barriers, compiled for the host: a thread for each of a block's. What it
cannot find are races: those are compute-sanitizer's."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np

HEAD = r"""
#include <cmath>
#include <pthread.h>
#include <thread>
#include <vector>
using std::fabs; using std::fmax; using std::sqrt;
struct Index { int x; };
static thread_local Index threadIdx, blockIdx;
static pthread_barrier_t barrier;
static double exchanged[1024];
static void __syncthreads() { pthread_barrier_wait(&barrier); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int apart) {      // by all warps together
  exchanged[threadIdx.x] = value;
  __syncthreads();
  T got = (T)exchanged[threadIdx.x ^ apart];
  __syncthreads();
  return got;
}
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__
#define __grid_constant__
#define __launch_bounds__(n)
static void atomicAdd(double* to, double value) { *to += value; }      // by one thread of a block
"""
TAIL = r"""
extern "C" void launch(void** p, long long* n, int threads, int blocks) {
  std::vector<std::thread> all;
  pthread_barrier_init(&barrier, nullptr, threads);
  for (int t = 0; t < threads; t++)
    all.emplace_back([=] {
      threadIdx.x = t;
      for (int b = 0; b < blocks; b++) {
        blockIdx.x = b;
        %(call)s;
        __syncthreads();
      }
    });
  for (auto& one : all) one.join();
  pthread_barrier_destroy(&barrier);
}
"""


class HostKernel:
    """A text that defines `name(operands, numbers, begin, end)`, or what `call` calls with p (operands) and n."""

    def __init__(self, folder, name: str, text: str, element: str, operands: int, numbers: int, call: str = "") -> None:
        given = [*[f"({element}*)p[{k}]" for k in range(operands)], *[f"n[{k}]" for k in range(numbers)]]
        source, library = folder / f"{name}.cpp", folder / f"{name}.so"
        call = call or f"{name}({', '.join(given)}, 0, blocks)"
        source.write_text(HEAD + text.replace('extern "C" ', "") + TAIL % {"call": call})
        command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
        subprocess.run([*command, "-o", str(library), str(source)], check=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, arrays: list[np.ndarray], numbers: list[int], threads: int, blocks: int) -> None:
        places = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        self.library.launch(places, (ctypes.c_longlong * len(numbers))(*numbers), threads, blocks)
