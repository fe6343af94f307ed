"""Names of classes and functions in files: `torch.` outside, `rushlight.` inside.

Enters: the global names of a pickle, and pickles our classes were written to. Leaves: the object a file means, or the
same pickle with PyTorch's names. Only the instructions that name globals are touched, never text that looks like them.
Refuses names Rushlight does not have, saying so.
"""

from __future__ import annotations

import importlib
import pickletools
import re
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator
from typing import Any

from ..base import homes, late
from ..op import find_op

# Where a name lives elsewhere than in PyTorch. The first column is what files say.
_MOVED: dict[tuple[str, str], tuple[str, str]] = {
    ("torch._C", "TensorBase"): ("rushlight", "Tensor"),
    ("torch._C", "_TensorBase"): ("rushlight", "Tensor"),
    ("torch.storage", "UntypedStorage"): ("rushlight", "UntypedStorage"),
    ("torch.utils.hooks", "RemovableHandle"): ("rushlight.autograd.hooks", "RemovableHandle"),
    ("torch.nested._internal.nested_tensor", "NestedTensor"): ("rushlight.definitions.nested.container",
                                                               "NestedTensor"),
    ("torch.nested._internal.nested_tensor", "_rebuild_njt"): ("rushlight._utils", "_rebuild_njt"),
    ("torch._dynamo.decorators", "_DimRange"): ("rushlight.serialization.stand_ins", "_DimRange"),
    ("torch.nn.utils.spectral_norm", "SpectralNormStateDictHook"): ("rushlight.serialization.stand_ins",
                                                                    "SpectralNormStateDictHook"),
    ("torch.nn.utils.spectral_norm", "SpectralNormLoadStateDictPreHook"): ("rushlight.serialization.stand_ins",
        "SpectralNormLoadStateDictPreHook"),
    ("torch.nn.backends.thnn", "_get_thnn_function_backend"): ("rushlight.serialization.stand_ins",
                                                               "_get_thnn_function_backend"),
}
_BACK = {ours: theirs for theirs, ours in _MOVED.items() if theirs[1] == ours[1]}
_MODULES = {"torch.tensor": "torch._tensor"}
# Packages here that are one file in PyTorch.
_ONE_FILE = re.compile(
    r"rushlight\.(optim\.lr_scheduler|distributions\.(?:constraints|transforms|kl)|nn\.functional)\."
)
# Built-in functions, which are ops here.
_BUILT_IN = frozenset(("torch._C._nn", "torch._C._special", "torch._C._linalg", "torch._C._fft", "torch._C._sparse"))


def torch_name(module: str, name: str) -> tuple[str, str]:
    """What PyTorch calls one of our globals; other names stay."""
    if not homes.is_ours(module):
        return module, name
    module = "rushlight" + "".join(module.partition(".")[1:])
    moved = _BACK.get((module, name))
    if moved is not None:
        return moved
    one = _ONE_FILE.match(module)
    return "torch" + (one.group()[:-1] if one else module)[len("rushlight") :], name


def python3_name(module: str, name: str) -> tuple[str, str]:
    """Protocol 2 speaks Python 2's names of the standard library."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def is_ours(module: str) -> bool:
    return module == "torch" or module.startswith("torch.")


def find(module: str, name: str) -> Any:
    """The object that `torch`'s `module.name` is here; AttributeError if there is none."""
    module = _MODULES.get(module, module)
    if (module, name) == ("torch._C", "_VariableFunctionsClass"):
        return late.provided("package")
    if module in _BUILT_IN:
        return find_op(name)
    home, attribute = _MOVED.get((module, name), ("rushlight" + module[len("torch") :], name))
    try:
        parent, _, child = home.rpartition(".")
        if parent:    # a package may have a function of the name of a file: asked for first, it stays the function
            getattr(importlib.import_module(parent), child, None)
        found: Any = importlib.import_module(home)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        raise AttributeError(
            f"load: the file refers to {module}.{name}, which Rushlight does not have. It cannot be loaded here."
        ) from None
    return found


# --- globals in a pickle ----------------------------------------------------------------------------------------------

# Runs of instructions that hold no text: without an argument, and with one of 1, 2, 4 or 8 bytes.
_RUN = re.compile(
    rb"(?s:[().0-2NQRabdelostu\]}\x81\x85-\x89\x8f-\x92\x94]|[hqK\x80\x82].|[M\x83].{2}|[Jjr\x84].{4}|[G\x95].{8})*"
)
_BY_LENGTH = {b"U": "<B", b"C": "<B", b"\x8c": "<B", b"\x8a": "<B", b"X": "<I", b"T": "<i", b"B": "<I", b"\x8b": "<i",
              b"\x8d": "<Q", b"\x8e": "<Q", b"\x96": "<Q"}


def global_sites(data: bytes) -> Iterator[tuple[int, int, str, str]]:
    """(from, to, module, name) of each GLOBAL instruction. ValueError for what is no pickle of protocols 1 to 3."""
    at = 0
    while True:
        at = _RUN.match(data, at).end()  # type: ignore[union-attr]
        if data[at - 1 : at] == b"." and at >= len(data):
            return
        code = data[at : at + 1]
        if code == b"c":
            middle = data.index(b"\n", at)
            end = data.index(b"\n", middle + 1) + 1
            yield at, end, data[at + 1 : middle].decode(), data[middle + 1 : end - 1].decode()
            at = end
        elif code in _BY_LENGTH:
            form = _BY_LENGTH[code]
            at += 1 + struct.calcsize(form) + struct.unpack_from(form, data, at + 1)[0]
        elif code and code in b"FILPSVgp":
            at = data.index(b"\n", at) + 1
        else:
            raise ValueError(f"unexpected instruction {code!r} at {at}")


def with_torch_names(data: bytes) -> bytes:
    """The pickle with PyTorch's names for our globals."""
    if b"rushlight" not in data and homes.shown == homes.PACKAGE:
        return data
    if data[:1] == b"\x80" and data[1] >= 4:
        return _renamed_on_stack(data)
    pieces, done = [], 0
    for start, end, module, name in global_sites(data):
        renamed = torch_name(module, name)
        if renamed != (module, name):
            pieces += [data[done:start], f"c{renamed[0]}\n{renamed[1]}\n".encode()]
            done = end
    return b"".join([*pieces, data[done:]])


def _renamed_on_stack(data: bytes) -> bytes:
    """Protocols 4 and 5 name globals by two strings on the stack: ours are dropped again,
    and a plain instruction follows."""
    pieces, done, memo, texts = [], 0, [], []
    ops = [*pickletools.genops(data)]
    for index, (op, argument, at) in enumerate(ops):
        end = ops[index + 1][2] if index + 1 < len(ops) else len(data)
        if op.name == "MEMOIZE":
            memo.append(texts[-1] if texts else None)
        elif op.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo[argument] if argument < len(memo) else None)
        elif op.name == "STACK_GLOBAL":
            module, name = texts[-2:]
            renamed = torch_name(module, name)
            if renamed != (module, name):
                pieces += [data[done:at], f"00c{renamed[0]}\n{renamed[1]}\n".encode()]
                done = end
            texts.append(None)
        elif op.name == "FRAME":  # lengths have changed, and frames are optional
            pieces.append(data[done:at])
            done = end
        else:
            texts.append(argument if isinstance(argument, str) else None)
    return b"".join([*pieces, data[done:]])


def globals_in(data: bytes) -> set[str]:
    """`module.name` of every global that a pickle names, without running it."""
    if not (data[:1] == b"\x80" and data[1] >= 4):
        return {".".join(python3_name(module, name)) for _, _, module, name in global_sites(data)}
    found, texts = set(), []
    memo: list[Any] = []
    for op, argument, _ in pickletools.genops(data):
        if op.name == "MEMOIZE":
            memo.append(texts[-1] if texts else None)
        elif op.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo[argument] if argument < len(memo) else None)
        elif op.name == "STACK_GLOBAL":
            found.add(f"{texts[-2]}.{texts[-1]}")
            texts.append(None)
        elif op.name == "GLOBAL":
            found.add(argument.replace(" ", "."))
            texts.append(None)
        else:
            texts.append(argument if isinstance(argument, str) else None)
    return found
