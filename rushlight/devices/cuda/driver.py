"""NVIDIA's driver as far as set-up needs it: what units there are, their names and limits, and modules made of PTX.

Enters: the driver's library, opened when CUDA is first asked for. Leaves: `Driver`. What runs often (memory, copies,
launches, events) goes through the core's table (csrc/cuda/device.cpp) instead. Refuses: with the driver's own words.
"""

from __future__ import annotations

import ctypes
import re

from ... import _C
from ...base import environment

# Attributes of a unit, by their numbers in the driver's interface.
ATTRIBUTES = {
    "max_threads_per_block": 1, "shared_memory_per_block": 8, "warp_size": 10, "regs_per_block": 12, "clock_rate": 13,
    "multi_processor_count": 16, "is_integrated": 18, "pci_bus_id": 33, "pci_device_id": 34, "memory_clock_rate": 36,
    "memory_bus_width": 37, "L2_cache_size": 38, "max_threads_per_multi_processor": 39, "pci_domain_id": 50,
    "major": 75, "minor": 76, "shared_memory_per_multiprocessor": 81, "regs_per_multiprocessor": 82,
    "is_multi_gpu_board": 84, "shared_memory_per_block_optin": 97,
}
ERROR_LOG, ERROR_LOG_BYTES = 5, 6     # options of loading a module
PTX_INPUT = 1                         # what is given to the linker
FAULTS = (700, 702, 710, 714, 715, 716, 717, 718, 719)     # errors after which a context is of no use
TOO_NEW = (209, 222)                  # errors of kernels that the driver cannot read, or not for this unit
OVERLAPS = True                       # kernels are started early, where units can
SAMPLE = ".target sm_80\n.entry sample()\n{\n}"
FEW_BLOCKS = 132                      # of a kernel that leaves room for the next one


def library_path() -> str:
    """Where the driver is: what RUSHLIGHT_CUDA_DRIVER says, or where the system looks for libraries."""
    return environment.get("RUSHLIGHT_CUDA_DRIVER")


class Driver:
    """The driver of this machine."""

    def __init__(self) -> None:
        path = library_path()
        self.units, self.table = _C.cuda_open(path)
        self.library = ctypes.CDLL(path)
        self.modules: list[ctypes.c_void_p] = []    # kept as long as the process
        newest = self.units and min(self.attribute(k, "major") for k in range(self.units))
        self.overlaps = OVERLAPS and newest >= 9 and _C.cuda_overlap(True)
        self.architectures: dict[int, str] = {}
        if environment.get("RUSHLIGHT_CUDA_QUEUE") == "1":
            _C.cuda_queue(True)

    def call(self, name: str, *args: object) -> None:
        """Call a function of the driver; raises what it answers."""
        code = getattr(self.library, name)(*args)
        if not code:
            return
        hint = ""
        if code in FAULTS:
            hint = ". The device's memory is lost to this process: start it anew"
        elif code in TOO_NEW:
            known = self.version()
            hint = f". The driver is of CUDA {known // 1000}.{known % 1000 // 10}: a newer one is needed"
        raise _C.AcceleratorError(f"cuda: {name} failed: {self.text(code)} ({code}){hint}")

    def text(self, code: int) -> str:
        """What an answer of the driver means."""
        text = ctypes.c_char_p()
        self.library.cuGetErrorString(code, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    def attribute(self, unit: int, name: str) -> int:
        """A limit or property of a unit, a number."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ATTRIBUTES[name], unit)
        return value.value

    def name(self, unit: int) -> str:
        """What the unit is called."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, unit)
        return text.value.decode()

    def total_memory(self, unit: int) -> int:
        """Bytes of memory on the unit."""
        size = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(size), unit)
        return size.value

    def memory_info(self, unit: int) -> tuple[int, int]:
        """Bytes free and bytes in all."""
        _C.cuda_enter(unit)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def uuid(self, unit: int) -> bytes:
        """16 bytes that name the unit."""
        text = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid", text, unit)
        return text.raw

    def version(self) -> int:
        """The newest CUDA that the driver knows, such as 13000."""
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return value.value

    def architecture(self, unit: int) -> str:
        """The unit's instructions, such as sm_90."""
        known = self.architectures.get(unit)
        if known is None:
            known = f"sm_{self.attribute(unit, 'major')}{self.attribute(unit, 'minor')}"
            self.architectures[unit] = known
        return known

    def started(self, ptx: str) -> str:
        """A PTX text as it is launched here: kernels that are started early wait before they do anything."""
        return starting_early(ptx) if self.overlaps else ptx

    def identity(self) -> bytes:
        """What machine code depends on besides a kernel's text."""
        return f"{self.version()} {self.started(SAMPLE)}".encode()

    def cubin(self, ptx: str, unit: int) -> bytes | None:
        """A PTX text as machine code of a unit, compiled by the driver; None where it has no linker."""
        if not hasattr(self.library, "cuLinkCreate_v2"):
            return None
        _C.cuda_enter(unit)
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        linker, image, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.call("cuLinkCreate_v2", 2, options, values, ctypes.byref(linker))
        text = ptx.encode() + b"\0"
        try:
            self.call("cuLinkAddData_v2", linker, PTX_INPUT, text, ctypes.c_size_t(len(text)), b"kernel", 0, None, None)
            self.call("cuLinkComplete", linker, ctypes.byref(image), ctypes.byref(size))
            return ctypes.string_at(image, size.value)
        except _C.AcceleratorError as error:
            raise _with_log(error, log) from None
        finally:
            self.library.cuLinkDestroy(linker)

    def function(self, image: bytes, name: str, unit: int) -> int:
        """The kernel called `name` of a module, machine code or PTX (which ends in a zero) for a unit."""
        _C.cuda_enter(unit)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), image, 2, options, values)
        except _C.AcceleratorError as error:
            raise _with_log(error, log) from None
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.modules.append(module)
        assert function.value is not None, f"the driver said that {name} is there"
        return function.value


def _with_log(error: Exception, log: ctypes.Array) -> Exception:
    """The error with what the compiler of the driver wrote."""
    said = log.value.decode(errors="replace").strip()
    return type(error)(f"{error}: {said}") if said else error


def starting_early(ptx: str) -> str:
    """The kernel for launches that may be started before those queued earlier have ended: it waits for them first. One
    of few blocks lets the next be started while it runs; beside one that fills the unit, blocks that wait are no help.
    """
    ptx = re.sub(r"\.target sm_\d+", ".target sm_90", ptx, count=1)
    waiting = (
        "\n{\n\t{\n\t.reg .pred %few;\n\t.reg .b32 %blocks;\n\tmov.u32 %blocks, %nctaid.x;\n"
        f"\tsetp.lt.u32 %few, %blocks, {FEW_BLOCKS};\n\t@%few griddepcontrol.launch_dependents;\n\t}}\n"
        "\tgriddepcontrol.wait;\n"
    )
    head, entry, body = ptx.partition(".entry")
    return head + entry + body.replace("\n{\n", waiting, 1)


def entry_name(ptx: str) -> str:
    """What the kernel of a PTX text is called."""
    found = re.search(r"\.entry\s+([\w$]+)", ptx)
    assert found is not None, "a PTX text has a kernel"
    return found.group(1)
