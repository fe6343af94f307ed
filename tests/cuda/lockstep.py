"""PTX as codegen/nvptx/written.py prints it, run by NumPy: the threads of a block go through it line by line together.

Knows the instructions that such kernels use. Threads may skip a line each for itself, but jump together. What it cannot
find are races: those are compute-sanitizer's.
"""

from __future__ import annotations

import re

import numpy as np

WARP = 32
MASK = {32: np.uint64(0xFFFFFFFF), 64: np.uint64(0xFFFFFFFFFFFFFFFF)}
FLOATS = {"f32": (np.uint32, np.float32), "f64": (np.uint64, np.float64)}
ARITHMETIC = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shr": lambda a, b: a >> b, "shl": lambda a, b: a << b, "min": np.minimum, "div": lambda a, b: a // b,
}
COMPARISONS = {
    "lt": np.less, "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal,
    "ltu": lambda a, b: ~(a >= b), "gtu": lambda a, b: ~(a <= b), "num": lambda a, b: (a == a) & (b == b),
}


FUNCTIONS = {
    "ex2": np.exp2, "lg2": np.log2, "fma": lambda a, b, c: a * b + c, "max": np.maximum, "min": np.fmin,
}


class Block:
    """One block of a launch."""

    def __init__(
        self, text: str, threads: int, memory: list[np.ndarray], params: list[int], number: int, shifts: list[int]
    ) -> None:
        self.threads, self.memory, self.number, self.shifts = threads, memory, number, shifts
        self.registers: dict[str, np.ndarray] = {}
        self.arrays: dict[str, int] = {}
        names = re.findall(r"\.param \.u64 (\w+)", text)
        given = [*[(k + 1 << 40) + shifts[k] for k in range(len(memory))], *params, 0, 0]
        assert len(names) == len(given), (names, params)
        self.arguments = dict(zip(names, given, strict=True))
        size = 0
        for name, count in re.findall(r"\.shared \.align 16 \.b8 (\w+)\[(\d+)\]", text):
            self.arrays[name] = size
            size += -(-int(count) // 16) * 16
        self.shared = np.full(size, 0xA5, np.uint8)
        body = text[text.index("\n{\n") + 3 :]
        self.lines = [line.strip().rstrip(";") for line in body.splitlines() if not line.strip().startswith(".")]
        self.labels = {line[:-1]: k for k, line in enumerate(self.lines) if line.endswith(":")}

    def run(self) -> None:
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            at += 1
            if not line or line.endswith(":") or line in ("}", "ret") or line.startswith("bar."):
                continue
            active = np.ones(self.threads, bool)
            if line.startswith("@"):
                condition, line = line[1:].split(" ", 1)
                active = self.read(condition.lstrip("!")) != 0
                active = ~active if condition.startswith("!") else active
            op, _, rest = line.partition(" ")
            if ".v" in op:
                self.vector(op, rest, active)
                continue
            operands = [o.strip() for o in rest.split(",")]
            if op == "bra":
                assert active.all() or not active.any()
                at = self.labels[operands[0]] if active.any() else at
            else:
                self.step(op.split("."), operands, active)

    def read(self, name: str) -> np.ndarray:
        lanes = np.arange(self.threads, dtype=np.uint64)
        special = {"%tid.x": lanes, "%ctaid.x": lanes * 0 + np.uint64(self.number),
                   "%lanemask_lt": (np.uint64(1) << lanes % np.uint64(WARP)) - np.uint64(1)}
        if name in special:
            return special[name]
        if name in self.registers:
            return self.registers[name]
        if name in self.arrays:
            return lanes * 0 + np.uint64(self.arrays[name])
        if name.startswith("0f"):
            return lanes * 0 + np.uint64(int(name[2:], 16))
        return lanes * 0 + np.uint64(int(name, 0) & 0xFFFFFFFFFFFFFFFF)

    def write(self, name: str, value: np.ndarray, active: np.ndarray) -> None:
        bits = MASK[64 if name.startswith("%d") else 32]
        before = self.registers.get(name, np.zeros(self.threads, np.uint64))
        self.registers[name] = np.where(active, value.astype(np.uint64) & bits, before)

    def step(self, op: list[str], operands: list[str], active: np.ndarray) -> None:
        name, kind = op[0], op[-1]
        if name in ("ld", "st", "red"):
            return self.move(op, operands, active)
        if name == "shfl":
            return self.shuffle(op[2], operands, active)
        if "{" in "".join(operands):
            return self.halves(operands, active)
        sources = [self.read(o) for o in operands[1:]]
        if name == "mov":
            result = sources[0]
        elif name == "cvt":
            result = self.converted(op[-2], op[-1], sources[0])
        elif kind in FLOATS and name in ("add", "sub", "mul"):
            word, real = FLOATS[kind]
            a, b = (self.numbers(s, kind) for s in sources)
            result = ARITHMETIC[name](a, b).astype(real).view(word).astype(np.uint64)
        elif kind in FLOATS and name in FUNCTIONS:
            word, real = FLOATS[kind]
            result = FUNCTIONS[name](*[self.numbers(s, kind) for s in sources])
            result = result.astype(real).view(word).astype(np.uint64)
        elif name == "mad":
            result = sources[0] * sources[1] + sources[2]
        elif name == "setp":
            result = COMPARISONS[op[1]](*[self.numbers(s, kind) for s in sources])
        elif name == "not":
            result = ~sources[0]
        elif name == "redux":
            result = (sources[0] & MASK[32]).reshape(-1, WARP).min(1).repeat(WARP)
        elif name == "vote":
            result = self.ballot(sources[0])
        elif name == "popc":
            result = np.array([bin(int(v)).count("1") for v in sources[0]], np.uint64)
        elif name == "match":
            result = self.matching(sources[0])
        else:
            result = ARITHMETIC[name](*sources)
        return self.write(operands[0], result, active)

    def numbers(self, value: np.ndarray, kind: str) -> np.ndarray:
        """A register's bits as what an instruction takes them for."""
        if kind in FLOATS:
            word, real = FLOATS[kind]
            return value.astype(word).view(real)
        bits = 64 if kind.endswith("64") else 32
        found = (value & MASK[bits]).astype(f"u{bits // 8}")
        return found.view(f"i{bits // 8}") if kind[0] == "s" else found

    def converted(self, to: str, of: str, value: np.ndarray) -> np.ndarray:
        """Between types."""
        if of == "bf16" or (to, of) in (("u32", "u64"), ("u32", "u16"), ("u64", "u32")):
            return value << np.uint64(16) if of == "bf16" else value
        if to == "bf16":
            return (value + np.uint64(0x7FFF) + (value >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
        word = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64, "s32": np.uint32, "s64": np.uint64}
        real = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32, "s64": np.int64}
        return value.astype(word[of]).view(real[of]).astype(real[to]).view(word[to]).astype(np.uint64)

    def halves(self, operands: list[str], active: np.ndarray) -> None:
        """A register of 64 bits into two of 32, or made of them."""
        names = [o.strip("{}") for o in operands]
        if operands[0].startswith("{"):
            whole = self.read(names[2])
            self.write(names[0], whole & MASK[32], active)
            self.write(names[1], whole >> np.uint64(32), active)
        else:
            self.write(names[0], self.read(names[2]) << np.uint64(32) | self.read(names[1]), active)

    def matching(self, value: np.ndarray) -> np.ndarray:
        result = np.zeros(self.threads, np.uint64)
        for first in range(0, self.threads, WARP):
            mine = value[first : first + WARP]
            equal = mine[:, None] == mine[None, :]
            result[first : first + WARP] = (equal.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1)
        return result

    def ballot(self, value: np.ndarray) -> np.ndarray:
        warps = (value != 0).reshape(-1, WARP).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
        return warps.sum(1).repeat(WARP)

    def shuffle(self, kind: str, operands: list[str], active: np.ndarray) -> None:
        target, exists = operands[0].split("|")
        source, distance = self.read(operands[1]), int(operands[2])
        lanes = np.arange(self.threads)
        if kind == "idx":
            self.write(target, source[lanes // WARP * WARP + distance], active)
            return self.write(exists, lanes >= 0, active)
        inside = lanes % WARP >= distance
        self.write(target, source[np.where(inside, lanes - distance, lanes)], active)
        return self.write(exists, inside, active)

    def vector(self, op: str, rest: str, active: np.ndarray) -> None:
        """A load or store of several registers, one by one; the address is a multiple of their size together."""
        name, count = re.sub(r"\.v\d", "", op), int(re.search(r"\.v(\d)", op).group(1))
        registers = [o.strip() for o in re.search(r"{(.*)}", rest).group(1).split(",")]
        base, _, offset = re.search(r"\[(.*)\]", rest).group(1).partition("+")
        size = int(re.sub(r"\D", "", name.split(".")[-1])) // 8
        start = self.read(base) + np.uint64(int(offset or 0))
        assert len(registers) == count and not (start[active] % np.uint64(count * size)).any(), "not a vector's place"
        for k, register in enumerate(registers):
            place = f"[{base}+{int(offset or 0) + k * size}]"
            self.move(name.split("."), [register, place] if name.startswith("ld") else [place, register], active)

    def move(self, op: list[str], operands: list[str], active: np.ndarray) -> None:
        """Loads, stores, and sums in memory."""
        if op[1] == "param":
            return self.write(operands[0], self.read(str(self.arguments[operands[1][1:-1]])), active)
        place = operands[1] if op[0] == "ld" else operands[0]
        register, _, offset = place[1:-1].partition("+")
        at = (self.read(register) + np.uint64(int(offset or 0)))[active].astype(np.int64)
        size = int(re.sub(r"\D", "", op[-1])) // 8
        memory = self.shared
        if op[1] == "global" and len(at):
            owners = set((at >> 40).tolist())
            assert len(owners) == 1, "an address beyond all tensors"
            owner = owners.pop() - 1
            memory, at = self.memory[owner], (at & (1 << 40) - 1) - self.shifts[owner]
        assert not len(at) or (at.min() >= 0 and at.max() + size <= len(memory)), (op, operands)
        assert not len(at) or not (at % size).any(), "an address that is no multiple of the size"
        words = memory.view(f"u{size}")
        if op[0] == "ld":
            value = np.zeros(self.threads, np.uint64)
            value[active] = words[at // size]
            self.write(operands[0], value, active)
        elif op[0] == "st":
            words[at // size] = self.read(operands[1])[active].astype(words.dtype)
        else:
            np.add.at(words, at // size, self.read(operands[1])[active].astype(words.dtype))
        return None


def run(written, blocks: int, memory: list[np.ndarray], params: list[int], shifts: list[int] | None = None) -> None:
    """A launch over arrays, which are given as bytes; `shifts`: of each, the bytes by which it misses a place where all
    vectors may start."""
    text, shifts = written.text(), shifts or [0] * len(memory)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for number in range(blocks):
            Block(text, written.threads, memory, params, number, shifts).run()
