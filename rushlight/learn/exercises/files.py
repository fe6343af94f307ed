"""Exercises of the chapter on files: state dicts, trust, maps, atomic writes."""

import os
import pickle
import struct
import tempfile
from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


class Danger:
    """Something whose pickle calls a function."""

    def __reduce__(self) -> Any:
        return (len, ("abc",))


def pickles(kind: Any) -> Any:
    made = {"numbers": [1, 2.5], "text": {"a": "b"}, "set": {1, 2}, "call": Danger(), "nested": [{"x": (1, Danger())}]}
    return b"Pweights\n." if kind == "a persistent id" else pickle.dumps(made[kind], protocol=2)


def saved(answer: ModuleType, before: Any, after: Any, fails: Any) -> Any:
    """What a folder holds after a write that may be interrupted."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights")
        if before is not None:
            with open(path, "w") as file:
                file.write(before)

        names, size = [], None

        def write(file: Any) -> Any:
            names.append(os.path.basename(file.name))
            file.write(after)
            if fails:
                raise InterruptedError

        try:
            size = answer.replace_file(path, write)
        except InterruptedError:
            pass
        left = sorted(os.listdir(folder))
        return names, left, open(path).read() if left else None, size


CHAPTER = chapter(
    "files",
    "Files: saving, loading, trusting",
    "文件：保存、加载、信任",
    Exercise(
        title="What does not fit",
        title_zh="哪些对不上",
        text="""Compare a model's state dict with one from a file, both given as dictionaries from names to shapes.
        Return three sorted lists: names that are missing from the file, names that the file has and the model has
        not, and names that both have with different shapes.""",
        solution='''
        def compare(model, file):
            """(missing, unexpected, misshapen) names."""
            missing = sorted(model.keys() - file.keys())
            unexpected = sorted(file.keys() - model.keys())
            misshapen = sorted(name for name in model.keys() & file.keys() if tuple(model[name]) != tuple(file[name]))
            return missing, unexpected, misshapen
        ''',
        hint="""`keys()` of dictionaries can be subtracted and intersected as sets are; a shape may be a list or a
        tuple.""",
        cases=lambda: [
            ({}, {}),
            ({"w": (2,)}, {}),
            ({}, {"w": (2,)}),
            ({"w": (2,)}, {"w": [2]}),
            ({"w": (2,)}, {"w": (3,)}),
            ({"b": (1,), "a": (2,), "c": ()}, {"c": (4,), "z": (1,), "b": (1,), "y": ()}),
        ],
    ),
    Exercise(
        title="A pickle that wants to run code",
        title_zh="想执行代码的 pickle",
        text="""Given the bytes of a pickle, return whether it would call or import anything when loaded, without
        loading it: whether any of its opcodes is called GLOBAL, STACK_GLOBAL, INST, REDUCE, OBJ, NEWOBJ, NEWOBJ_EX,
        BUILD, EXT1, EXT2, EXT4 or PERSID. Use `pickletools.genops`.""",
        solution='''
        import pickletools

        ACTIVE = set("GLOBAL STACK_GLOBAL INST REDUCE OBJ NEWOBJ NEWOBJ_EX BUILD EXT1 EXT2 EXT4 PERSID".split())


        def is_active(data):
            """Whether loading the pickle would do more than build plain values."""
            return any(opcode.name in ACTIVE for opcode, _, _ in pickletools.genops(data))
        ''',
        hint="`genops` yields (opcode, argument, position); the name of an opcode is `opcode.name`.",
        cases=lambda: [("numbers",), ("text",), ("set",), ("call",), ("nested",), ("a persistent id",)],
        probe=lambda answer, kind: answer.is_active(pickles(kind)),
        asks="a pickle of kind {0}",
    ),
    Exercise(
        title="A write that is whole or not at all",
        title_zh="要么写全，要么不写",
        text="""Write `replace_file(path, write)`: `write(file)` is called with a text file open for writing, whose
        name is that of `path` with ".new" behind it. Afterwards `path` holds what was written; return its size in
        bytes. If `write` raises, the old file (or its absence) stays as it was, nothing else is left in the folder,
        and the exception goes on.""",
        solution='''
        import os


        def replace_file(path, write):
            """The new content of a file, or the old one; the size of the new one."""
            temporary = f"{path}.new"
            try:
                with open(temporary, "w") as file:
                    write(file)
                os.replace(temporary, path)
            except BaseException:
                os.remove(temporary)
                raise
            return os.path.getsize(path)
        ''',
        hint="""Write beside it and rename: `os.replace` happens at once. Remove what is half written before going on
        with `raise`.""",
        cases=lambda: [
            (None, "new", False),
            (None, "new", True),
            ("old", "newer", False),
            ("old", "newer", True),
            ("a longer one", "b", False),
        ],
        probe=saved,
        asks="[the name written to, the folder, the file, the size] after {0} is to become {1} (interrupted: {2})",
    ),
    Exercise(
        title="One tensor out of a large file",
        title_zh="从大文件取一个张量",
        text="""A file holds a header of `count` lines "name offset length" (in bytes from the beginning of the data),
        preceded by one line with `count`; the data follows the last line at once, little-endian float32. Given the
        whole file as bytes and a name, return the numbers as a list of floats, reading only the part that is asked
        for. Raise KeyError for an unknown name.""",
        solution='''
        import struct


        def tensor_of(data, name):
            """The numbers of one tensor."""
            first, _, rest = data.partition(b"\\n")
            lines = rest.split(b"\\n", int(first))
            start = len(data) - len(lines[-1])
            for line in lines[:-1]:
                called, offset, length = line.decode().split()
                if called == name:
                    part = data[start + int(offset) : start + int(offset) + int(length)]
                    return list(struct.unpack(f"<{len(part) // 4}f", part))
            raise KeyError(name)
        ''',
        hint="""`bytes.split(b'\\n', count)` leaves everything behind the header in its last part.
        `struct.unpack('<3f', …)` reads three floats.""",
        cases=lambda: [
            ([("a", [1.0])], "a"),
            ([("a", [])], "a"),
            ([("a", [1.0])], "b"),
            ([], "a"),
            ([("a", [1.0, 2.0]), ("b", [3.0, 3.5, 10.0]), ("ab", [7.0])], "b"),
            ([("x", [0.5]), ("y", [10.25] * 5)], "y"),
        ],
        probe=lambda answer, tensors, name: looked_up(answer, tensors, name),
        asks="a file with {0}, asked for {1}",
    ),
    Exercise(
        title="Tensors that share memory",
        title_zh="共享内存的张量",
        text="""A state dict may hold one tensor under two names (tied weights). Return the groups of names whose
        tensors begin at the same memory: a list of sorted lists, only groups of two or more, sorted. Use
        `data_ptr()`; empty tensors share nothing.""",
        solution='''
        def tied(state):
            """Groups of names that share memory."""
            groups = {}
            for name, tensor in state.items():
                if tensor.numel() > 0:
                    groups.setdefault(tensor.data_ptr(), []).append(name)
            return sorted(sorted(names) for names in groups.values() if len(names) > 1)
        ''',
        hint="A dictionary from `data_ptr()` to names. Two empty tensors may have the same address, 0.",
        cases=lambda: [("",), ("a",), ("aa",), ("ab",), ("aba",), ("abcabb",), ("00",), ("0a0a",)],
        probe=lambda answer, letters: answer.tied(state_of(letters)),
        asks="tensors that share memory as equal letters do: {0} (0 is empty), under the names n0, n1, … backwards",
    ),
)


def looked_up(answer: ModuleType, tensors: Any, name: Any) -> Any:
    """What a small file gives for a name; the kind of a refusal."""
    header, body = [], b""
    for called, numbers in tensors:
        header.append(f"{called} {len(body)} {4 * len(numbers)}\n")
        body += struct.pack(f"<{len(numbers)}f", *numbers)
    try:
        return answer.tensor_of(f"{len(tensors)}\n{''.join(header)}".encode() + body, name)
    except KeyError:
        return "KeyError"


def state_of(letters: Any) -> Any:
    made = {letter: torch.ones(0 if letter == "0" else 2) for letter in letters}
    return {f"n{len(letters) - k}": made[letter] for k, letter in enumerate(letters)}
