"""A back end in Python over numpy arrays: kernels for what the rest stands on, and every call written down."""

import numpy as np
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

CALLS = []
SEEDS = []


class Module:
    """`torch.npy`."""

    state = torch.zeros(4, dtype=torch.uint8)

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def current_device(self):
        return 0

    def device_count(self):
        return 1

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        SEEDS.append(seed)

    def get_amp_supported_dtype(self):
        return [torch.float16]

    def get_rng_state(self, device="npy"):
        return self.state.clone()

    def set_rng_state(self, new_state, device="npy"):
        self.state = new_state


_setup_privateuseone_for_python_backend("npy", backend_module=Module())


class NpyTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, array, dtype):
        made = torch._C._acc.create_empty_tensor(tuple(array.shape), dtype)
        made.__class__ = NpyTensor
        return made

    def __init__(self, array, dtype):
        self.raw = array

    def __repr__(self):
        return f"NpyTensor({self.raw.tolist()})"


TYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64, torch.bool: np.bool_,
         torch.float16: np.float16, torch.int32: np.int32, torch.uint8: np.uint8}


def wrap(host):
    return NpyTensor(host.detach().numpy(), host.dtype)


def host(value):
    """What a kernel gets, on the CPU: tensors of ours share their memory."""
    if isinstance(value, torch.Tensor) and value.device.type == "npy":
        return torch.from_numpy(value.raw)
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "npy" else value


library = torch.library.Library("aten", "IMPL")


def kernel(name, key="PrivateUse1"):
    def file(function):
        def called(*args, **kwargs):
            CALLS.append(name)
            return function(*args, **kwargs)

        library.impl(name, called, key)
        return function

    return file


@kernel("empty.memory_format")
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    dtype = dtype or torch.get_default_dtype()
    return NpyTensor(np.zeros(size, TYPES[dtype]), dtype)


@kernel("empty_strided")
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    dtype = dtype or torch.get_default_dtype()
    return NpyTensor(np.zeros(size, TYPES[dtype]), dtype)


@kernel("_copy_from")
def copy_from(source, target, non_blocking=False):
    found = host(source).detach()
    if target.device.type == "npy":
        target.raw[...] = found.to(target.dtype).numpy()
    else:
        target.copy_(found)
    return target


@kernel("_local_scalar_dense")
def local_scalar_dense(self):
    return self.raw.item()


@kernel("view")
def view(self, size):
    return NpyTensor(self.raw.reshape(size), self.dtype)


@kernel("as_strided")
def as_strided(self, size, stride, storage_offset=None):
    flat = self.raw.reshape(-1)[storage_offset or 0 :]
    return NpyTensor(np.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride]), self.dtype)


@kernel("detach")
def detach(self):
    return NpyTensor(self.raw, self.dtype)


def answered(function):
    """A result with the calls of kernels that made it."""
    CALLS.clear()
    result = function()
    return [result, list(CALLS)]
