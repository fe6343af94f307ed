"""What a program says to valgrind while it runs under it: start, stop and dump the counting of instructions.

Enters: the number of a request. Leaves: its answer, 0 outside valgrind. A request is a few instructions that do nothing
on a processor and that valgrind looks for; they are given here as machine code, which runs without a compiler and
without valgrind's headers, and as C++ text. Refuses: processors for which valgrind has no such sequence, or none here.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
from collections.abc import Callable

RUNNING_ON_VALGRIND = 0x1001
_CALLGRIND = ord("C") << 24 | ord("T") << 16
DUMP_STATS, TOGGLE_COLLECT, START_INSTRUMENTATION = _CALLGRIND, _CALLGRIND + 2, _CALLGRIND + 4

# `long request(long *words)`: six words, the first of them the request; the answer starts as 0.
_MACHINE_CODE = {
    "x86_64": "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3",
    # words as they lie in memory
    "aarch64": "030080d2 e40300aa 8c0dcc93 8c35cc93 8ccdcc93 8cf5cc93 4a010aaa e00303aa c0035fd6",
}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}

CPP = """
static inline void rushlight_request(unsigned long long request) {
  volatile unsigned long long words[6] = {request, 0, 0, 0, 0, 0};
  unsigned long long answer;
#if defined(__x86_64__)
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "=d"(answer) : "a"(&words[0]), "0"(0ull) : "cc", "memory");
#elif defined(__aarch64__)
  __asm__ volatile("mov x3, #0; mov x4, %1; ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; "
                   "ror x12, x12, #61; orr x10, x10, x10; mov %0, x3"
                   : "=r"(answer) : "r"(&words[0]) : "cc", "memory", "x3", "x4");
#else
#error "no requests to valgrind are known for this processor"
#endif
  (void)answer;
}
"""


def processor() -> str:
    """This machine's processor, by the name above."""
    name = platform.machine().lower()
    return _ALIASES.get(name, name)


def is_supported() -> bool:
    """Whether requests are known for this machine."""
    return platform.system() in ("Linux", "FreeBSD") and processor() in _MACHINE_CODE


@functools.cache
def _function() -> tuple[mmap.mmap, Callable[[int], int]]:
    """The request as a function, and the memory its code lies in."""
    if not is_supported():
        raise OSError(f"Valgrind is not supported on this platform: {platform.system()} on {platform.machine()}")
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(bytes.fromhex(_MACHINE_CODE[processor()]))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    # Made executable once it is written: the kernel then brings what caches of instructions hold up to date.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "requests to valgrind need memory that can be executed")
    return page, ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)


def prepared(number: int) -> Callable[[], int]:
    """A request as a function that makes it with as few instructions around it as Python allows."""
    words = (ctypes.c_uint64 * 6)(number)
    call = functools.partial(_function()[1], ctypes.c_void_p(ctypes.addressof(words)))
    call.words = words      # type: ignore[attr-defined]  # they live as long as the function
    return call


def request(number: int) -> int:
    """Make a request; its answer."""
    return prepared(number)()
