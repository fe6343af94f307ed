"""cuSOLVER and cuBLAS behind LAPACK's names, for programs of planners/factors/lapack_device.py.

Enters: a routine's name, type and arguments as LAPACK takes them; workspaces and their lengths are left out, since the
library's own are other. Leaves: the routine done for every matrix of the batch, on the current stream. `find()` is None
where the libraries are not installed: the host computes then, and says so. Refuses, by None from `routine`: what the
libraries do not have (eigenvalues of general matrices, LDL, least squares that find the rank).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import _C
from . import libraries

NAMES = ("libcusolver.so.12", "libcusolver.so.11")
NEEDED = ("libcublasLt.so", "libcublas.so", "libnvJitLink.so", "libcusparse.so")
TYPES = {"f32": 0, "f64": 1, "c64": 4, "c128": 5}            # as the libraries number them
REAL = {"f32": 0, "f64": 1, "c64": 0, "c128": 1}
LETTERS = {"f32": "S", "f64": "D", "c64": "C", "c128": "Z"}
SIZES = {"f32": 4, "f64": 8, "c64": 8, "c128": 16}
SIDES, FORMS, TRIANGLES, DIAGONALS = {"L": 0, "R": 1}, {"N": 0, "T": 1, "C": 2}, {"L": 0, "U": 1}, {"N": 0, "U": 1}
JOBS = {"N": 0, "V": 1}
JACOBI_AT_ONCE = 32        # the largest of which the library rotates batches at once
SMALL = 512                # the largest matrices of which batches go to the library at once
Address = ctypes.c_void_p
Long = ctypes.c_int64


class Library:
    """Both libraries, and handles of them for each thread and unit."""

    def __init__(self, path: str) -> None:
        self.solver = ctypes.CDLL(path)
        self.blas = next(ctypes.CDLL(p) for p in libraries.places(libraries.NAMES) if opens(p))
        self.own = threading.local()

    def call(self, name: str, *args: Any) -> None:
        """Call a function of either library; raises what it answers."""
        status = getattr(self.blas if name.startswith("cublas") else self.solver, name)(*args)
        if status:
            raise RuntimeError(f"cuda: {name} failed with status {status}")

    def has(self, name: str) -> bool:
        return hasattr(self.solver, name)

    def handles(self, device: Any) -> tuple[Address, Address, Address]:
        """This thread's handles of cuSOLVER and cuBLAS for a unit, on the current stream, and cuSOLVER's settings."""
        known = self.own.__dict__.setdefault("handles", {})
        _C.cuda_enter(device.index)
        if device.index not in known:
            solver, blas, settings = Address(), Address(), Address()
            self.call("cusolverDnCreate", ctypes.byref(solver))
            self.call("cublasCreate_v2", ctypes.byref(blas))
            self.call("cusolverDnCreateParams", ctypes.byref(settings))
            known[device.index] = [solver, blas, settings, None]
        entry, stream = known[device.index], _C.stream_handle(device)
        if entry[3] != stream:
            self.call("cusolverDnSetStream", entry[0], Address(stream))
            self.call("cublasSetStream_v2", entry[1], Address(stream))
            entry[3] = stream
        return entry[0], entry[1], entry[2]


def opens(path: str) -> bool:
    try:
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


@functools.cache
def find() -> Library | None:
    """The libraries; None where they are not installed."""
    for path in libraries.places(NAMES):
        for needed in NEEDED:      # which the library looks for by their plain names
            for near in sorted(Path(path).parent.glob(f"{needed}.*")) if "/" in path else ():
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(near), ctypes.RTLD_GLOBAL)
        try:
            return Library(path)
        except (OSError, StopIteration):
            continue
    return None


class Call:
    """One routine over a program's batch."""

    def __init__(self, program: Any, code: str) -> None:
        self.program, self.code, self.device = program, code, program.device
        found = find()
        assert found is not None, "routines are given where the library is"
        self.library = found
        self.solver, self.blas, self.settings = self.library.handles(self.device)
        self.type, self.real = TYPES[code], REAL[code]
        self.statuses = _C.empty((max(program.count, 1),), None, _C.int32, self.device).zero_()
        self.kept: list[Any] = []          # workspaces, until the work is queued

    def at(self, block: Any, i: int) -> Address:
        """A block's matrix i."""
        size = 8 if block.code == "i64" else SIZES[block.code]
        return Address(self.program.address(block) + i * block.batch * size)

    def status(self, i: int) -> Address:
        return Address(self.statuses.data_ptr() + 4 * i)

    def tell(self, info: Any) -> None:
        """The statuses where LAPACK leaves them."""
        self.program.view(info).copy_(self.statuses.reshape(-1, 1, 1))

    def each(self, block: Any) -> Address:
        """Where the addresses of a block's matrices are listed, on the device; which counts them itself, since a list
        from the host would have to wait for it."""
        size = 8 if block.code == "i64" else SIZES[block.code]
        first, step = self.program.address(block), block.batch * size
        steps = self.statuses.new_full((self.program.count,), step, dtype=_C.int64)
        listed = steps.cumsum(0).add_(first - step)
        self.kept.append(listed)
        return Address(listed.data_ptr())

    def one(self) -> Any:
        """The number 1 as routines take factors."""
        return ((ctypes.c_float if self.real == 0 else ctypes.c_double) * 2)(1, 0)

    def room(self, nbytes: int) -> Address:
        """Memory of the device for one call."""
        self.kept.append(_C.empty((max(nbytes, 1),), None, _C.uint8, self.device))
        return Address(self.kept[-1].data_ptr())

    def wide(self, name: str, *args: Any, i: int, last: tuple = ()) -> None:
        """A routine of the library's interface of 64 bits: it says how much memory it wants, there and here."""
        there, here = ctypes.c_size_t(), ctypes.c_size_t()
        self.library.call(
            f"cusolverDn{name}_bufferSize", self.solver, self.settings, *args, self.type, ctypes.byref(there),
            ctypes.byref(here), *last,
        )
        host = ctypes.create_string_buffer(max(here.value, 1))
        self.library.call(
            f"cusolverDn{name}", self.solver, self.settings, *args, self.type, self.room(there.value), there, host,
            here, self.status(i), *last,
        )

    def narrow(self, name: str, *args: Any, i: int) -> None:
        """A routine of the older interface."""
        length = ctypes.c_int()
        full = f"cusolverDn{LETTERS[self.code]}{name}"
        self.library.call(f"{full}_bufferSize", self.solver, *args, ctypes.byref(length))
        self.library.call(
            full, self.solver, *args, self.room(length.value * SIZES[self.code]), length, self.status(i)
        )


def at_once(c: Call, *sizes: int) -> bool:
    """Whether a batch of small matrices goes to the library in one call."""
    return c.program.count > 1 and max(sizes) <= SMALL


def getrf_at_once(c: Call, n: int, a: Any, lead: int, pivots: Any, info: Any) -> None:
    count = c.program.count
    exchanges = _C.empty((count, n), None, _C.int32, c.device)
    c.library.call(
        f"cublas{LETTERS[c.code]}getrfBatched", c.blas, n, c.each(a), lead, Address(exchanges.data_ptr()), c.status(0),
        count,
    )
    c.program.view(pivots).copy_(exchanges.unsqueeze(-1))
    c.tell(info)


def getrf(c: Call, m: int, n: int, a: Any, lead: int, pivots: Any, info: Any) -> None:
    """A = P L U. (The library asks for memory without being told where pivots go.)"""
    if m == n and at_once(c, n):
        getrf_at_once(c, n, a, lead, pivots, info)
        return
    for i in range(c.program.count):
        there, here = ctypes.c_size_t(), ctypes.c_size_t()
        matrix = (Long(m), Long(n), c.type, c.at(a, i), Long(lead))
        sizes = ctypes.byref(there), ctypes.byref(here)
        c.library.call("cusolverDnXgetrf_bufferSize", c.solver, c.settings, *matrix, c.type, *sizes)
        host = ctypes.create_string_buffer(max(here.value, 1))
        c.library.call(
            "cusolverDnXgetrf", c.solver, c.settings, *matrix, c.at(pivots, i), c.type, c.room(there.value), there,
            host, here, c.status(i),
        )
    c.tell(info)


def getrs(c: Call, form: str, n: int, count: int, lu: Any, lead: int, pivots: Any, b: Any, side: int, *_: Any) -> None:
    """op(A) X = B from the factors."""
    if at_once(c, n):
        exchanges, wrong = c.program.view(pivots).to(_C.int32).contiguous(), ctypes.c_int()
        c.library.call(
            f"cublas{LETTERS[c.code]}getrsBatched", c.blas, FORMS[form], n, count, c.each(lu), lead,
            Address(exchanges.data_ptr()), c.each(b), side, ctypes.byref(wrong), c.program.count,
        )
        return
    for i in range(c.program.count):
        c.library.call(
            "cusolverDnXgetrs", c.solver, c.settings, FORMS[form], Long(n), Long(count), c.type, c.at(lu, i),
            Long(lead), c.at(pivots, i), c.type, c.at(b, i), Long(side), c.status(i),
        )


def potrf(c: Call, triangle: str, n: int, a: Any, lead: int, info: Any) -> None:
    """A = L L^H."""
    if at_once(c, n):
        name = f"cusolverDn{LETTERS[c.code]}potrfBatched"
        c.library.call(name, c.solver, TRIANGLES[triangle], n, c.each(a), lead, c.status(0), c.program.count)
        factors = c.program.view(a)      # the other triangle is not left alone
        factors.copy_(factors.triu() if triangle == "U" else factors.tril())
        c.tell(info)
        return
    for i in range(c.program.count):
        c.wide("Xpotrf", TRIANGLES[triangle], Long(n), c.type, c.at(a, i), Long(lead), i=i)
    c.tell(info)


def potrs(c: Call, triangle: str, n: int, count: int, a: Any, lead: int, b: Any, side: int, *_: Any) -> None:
    """L L^H X = B."""
    for i in range(c.program.count):
        c.library.call(
            "cusolverDnXpotrs", c.solver, c.settings, TRIANGLES[triangle], Long(n), Long(count), c.type, c.at(a, i),
            Long(lead), c.type, c.at(b, i), Long(side), c.status(i),
        )


def potri(c: Call, triangle: str, n: int, a: Any, lead: int, info: Any) -> None:
    """The inverse of L L^H."""
    for i in range(c.program.count):
        c.narrow("potri", TRIANGLES[triangle], n, c.at(a, i), lead, i=i)
    c.tell(info)


def geqrf(c: Call, m: int, n: int, a: Any, lead: int, tau: Any, *_: Any) -> None:
    """R, and reflectors under it."""
    for i in range(c.program.count):
        c.wide("Xgeqrf", Long(m), Long(n), c.type, c.at(a, i), Long(lead), c.type, c.at(tau, i), i=i)


def orgqr(c: Call, m: int, n: int, k: int, a: Any, lead: int, tau: Any, *_: Any) -> None:
    """Q of reflectors."""
    for i in range(c.program.count):
        name = "ungqr" if c.code in ("c64", "c128") else "orgqr"
        c.narrow(name, m, n, k, c.at(a, i), lead, c.at(tau, i), i=i)


def ormqr(
    c: Call, side: str, form: str, m: int, n: int, k: int, a: Any, lead: int, tau: Any, b: Any, wide: int, *_: Any
) -> None:
    """op(Q) B, or B op(Q)."""
    for i in range(c.program.count):
        reflect(c, side, form, (m, n, k), (c.at(a, i), lead), c.at(tau, i), (c.at(b, i), wide), i)


def reflect(c: Call, side: str, form: str, sizes: tuple, a: tuple, tau: Address, b: tuple, i: int) -> None:
    name = "unmqr" if c.code in ("c64", "c128") else "ormqr"
    c.narrow(name, SIDES[side], FORMS[form], *sizes, *a, tau, *b, i=i)


def syevd(c: Call, job: str, triangle: str, n: int, a: Any, lead: int, values: Any, *rest: Any) -> None:
    """Eigenvalues of Hermitian matrices, and vectors in their place."""
    if at_once(c, n) and c.library.has("cusolverDnXsyevBatched"):
        whole = (JOBS[job], TRIANGLES[triangle], Long(n), c.type, c.at(a, 0), Long(lead), c.real, c.at(values, 0))
        c.wide("XsyevBatched", *whole, i=0, last=(Long(c.program.count),))
        c.tell(rest[-1])
        return
    for i in range(c.program.count):
        matrix = (JOBS[job], TRIANGLES[triangle], Long(n), c.type, c.at(a, i), Long(lead))
        c.wide("Xsyevd", *matrix, c.real, c.at(values, i), i=i)
    c.tell(rest[-1])


def trsm(
    c: Call, side: str, triangle: str, form: str, diagonal: str, m: int, n: int, _: Any, a: Any, lead: int, b: Any,
    wide: int,
) -> None:
    """Triangular systems."""
    if at_once(c, m, n):
        how = (SIDES[side], TRIANGLES[triangle], FORMS[form], DIAGONALS[diagonal])
        name = f"cublas{LETTERS[c.code]}trsmBatched"
        c.library.call(name, c.blas, *how, m, n, c.one(), c.each(a), lead, c.each(b), wide, c.program.count)
        return
    for i in range(c.program.count):
        how = (SIDES[side], TRIANGLES[triangle], FORMS[form], DIAGONALS[diagonal])
        triangular(c, how, (m, n), (c.at(a, i), lead), (c.at(b, i), wide))


def triangular(c: Call, how: tuple, sizes: tuple, a: tuple, b: tuple) -> None:
    c.library.call(f"cublas{LETTERS[c.code]}trsm_v2", c.blas, *how, *sizes, c.one(), *a, *b)


def gesdd(
    c: Call, job: str, m: int, n: int, a: Any, lead: int, s: Any, u: Any, wide_u: int, v: Any, wide_v: int, *rest: Any
) -> None:
    """Singular values by Jacobi's rotations; what does not converge is computed by QR's."""
    p, k = c.program, min(m, n)
    is_full, has_vectors = job == "A", job != "N"
    settings = Address()
    c.library.call("cusolverDnCreateGesvdjInfo", ctypes.byref(settings))
    source = p.view(a).clone()
    few = p.count > 1 and max(m, n) <= JACOBI_AT_ONCE
    if few:
        small_svd(c, job, source, (s, u, v), settings)
    for i in range(0 if few else p.count):
        work = source.select(0, i).mT.contiguous()
        left, right = work.new_empty((m if is_full else k, m)), work.new_empty((n if is_full else k, n))
        name, length = f"cusolverDn{LETTERS[c.code]}gesvdj", ctypes.c_int()
        args = (
            JOBS["V" if has_vectors else "N"], 0 if is_full else 1, m, n, Address(work.data_ptr()), m, c.at(s, i),
            Address(left.data_ptr()), m, Address(right.data_ptr()), n,
        )
        c.library.call(f"{name}_bufferSize", c.solver, *args, ctypes.byref(length), settings)
        c.library.call(name, c.solver, *args, c.room(length.value * SIZES[c.code]), length, c.status(i), settings)
        if has_vectors:
            p.view(u).select(0, i).copy_(left.mT)
            p.view(v).select(0, i).copy_(right.conj())
    c.library.call("cusolverDnDestroyGesvdjInfo", settings)
    if c.statuses.any().item():
        p.view(a).copy_(source)
        gesvd(c, job, m, n, a, lead, s, u, wide_u, v, wide_v, *rest)
        return
    c.tell(rest[-1])


def small_svd(c: Call, job: str, source: Any, into: tuple, settings: Address) -> None:
    """Those of a batch of small matrices at once; the library gives all vectors."""
    p, (count, m, n) = c.program, source.shape
    k, has_vectors = min(m, n), job != "N"
    work, target = source.mT.contiguous(), p.view(into[0])
    values = target.new_empty((count, k))
    left, right = work.new_empty((count, m, m)), work.new_empty((count, n, n))
    c.kept += [work, values, left, right]
    name, length = f"cusolverDn{LETTERS[c.code]}gesvdjBatched", ctypes.c_int()
    matrices = [Address(t.data_ptr()) for t in (work, values, left, right)]
    args = (JOBS["V" if has_vectors else "N"], m, n, matrices[0], m, matrices[1], matrices[2], m, matrices[3], n)
    c.library.call(f"{name}_bufferSize", c.solver, *args, ctypes.byref(length), settings, count)
    room = c.room(length.value * SIZES[c.code])
    c.library.call(name, c.solver, *args, room, length, c.status(0), settings, count)
    target.copy_(values.reshape(target.shape))
    if has_vectors:
        p.view(into[1]).copy_(left.narrow(1, 0, m if job == "A" else k).mT)
        p.view(into[2]).copy_(right.narrow(1, 0, n if job == "A" else k).conj())


def gesvd(
    c: Call, job: str, m: int, n: int, a: Any, lead: int, s: Any, u: Any, wide_u: int, v: Any, wide_v: int, *rest: Any
) -> None:
    """Singular values, and vectors where they are wanted; of flat matrices, those of the adjoint."""
    p, k = c.program, min(m, n)
    flat, has_vectors = m < n, job != "N"
    tall = (n, m) if flat else (m, n)
    for i in range(p.count):
        # Column-major, as a transposed view of rows; an adjoint of column-major memory is its rows, conjugated.
        source = p.view(a).select(0, i)
        work = source.conj().resolve_conj().contiguous() if flat else source.mT.contiguous()
        left = work.new_empty((tall[0] if job == "A" else k, tall[0]))
        right = work.new_empty((k, k))
        how = (ctypes.c_byte(ord(job)), ctypes.c_byte(ord("S" if has_vectors else "N")))
        c.wide(
            "Xgesvd", *how, Long(tall[0]), Long(tall[1]), c.type, Address(work.data_ptr()), Long(tall[0]), c.real,
            c.at(s, i), c.type, Address(left.data_ptr()), Long(tall[0]), c.type, Address(right.data_ptr()), Long(k),
            i=i,
        )
        if has_vectors:
            target_u, target_v = p.view(u).select(0, i), p.view(v).select(0, i)
            # `left` holds the columns of the tall side's vectors as rows, `right` those of the adjoint of the other's.
            target_u.copy_(right.conj() if flat else left.mT)
            target_v.copy_(left.conj() if flat else right.mT)
    c.tell(rest[-1])


def gels(c: Call, _: str, m: int, n: int, count: int, a: Any, lead: int, b: Any, wide: int, *rest: Any) -> None:
    """Least squares by Q and R; of flat matrices the shortest solution, by those of the adjoint."""
    p, k = c.program, min(m, n)
    adjoint = "C" if c.code in ("c64", "c128") else "T"
    for i in range(p.count):
        source = p.view(a).select(0, i)
        # column-major, no flatter than wide
        work = source.conj().resolve_conj().contiguous() if m < n else source.mT.contiguous()
        rows = max(m, n)
        matrix, tau = (Address(work.data_ptr()), rows), work.new_empty((k,))
        c.kept += [work, tau]
        scales, side = Address(tau.data_ptr()), (c.at(b, i), wide)
        c.wide("Xgeqrf", Long(rows), Long(k), c.type, matrix[0], Long(rows), c.type, scales, i=i)
        upper = SIDES["L"], TRIANGLES["U"]
        if m >= n:
            reflect(c, "L", adjoint, (m, count, k), matrix, scales, side, i)
            triangular(c, (*upper, FORMS["N"], DIAGONALS["N"]), (n, count), matrix, side)
        else:
            triangular(c, (*upper, FORMS[adjoint], DIAGONALS["N"]), (m, count), matrix, side)
            p.view(b).select(0, i).narrow(0, m, n - m).zero_()
            reflect(c, "L", "N", (n, count, k), matrix, scales, side, i)
    p.view(rest[-1]).zero_()


ROUTINES: dict[str, Callable] = {
    "getrf": getrf, "getrs": getrs, "potrf": potrf, "potrs": potrs, "potri": potri, "geqrf": geqrf, "orgqr": orgqr,
    "ungqr": orgqr, "ormqr": ormqr, "unmqr": ormqr, "syevd": syevd, "heevd": syevd, "trsm": trsm, "gesdd": gesdd,
    "gesvd": gesvd, "gels": gels,
}


def routine(program: Any, name: str, code: str, args: tuple) -> bool:
    """Call a routine; False where there is none."""
    if name not in ROUTINES:
        return False
    ROUTINES[name](Call(program, code), *args)
    return True
