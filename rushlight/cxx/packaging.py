"""Extensions for setuptools: a setup.py written for PyTorch builds unmodified.

Enters: setuptools' extensions. Leaves: modules, each source compiled with C++17 unless it says otherwise, by ninja or
by setuptools' own compiler. Refuses: SYCL and Windows by name, and the stable ABI of Python by a warning.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext

from . import build, inline, uses
from .build import Step


def extension(name: str, sources: Any, args: tuple, kwargs: dict[str, Any], with_cuda: bool) -> setuptools.Extension:
    """An extension with the folders and libraries it is built with."""
    device = "cuda" if with_cuda else "cpu"
    dlink = bool(kwargs.pop("dlink", False)) or "dlink_libraries" in kwargs
    dlink_libraries = kwargs.pop("dlink_libraries", [])
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *build.include_paths(device)]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", ()), *build.library_paths(device)]
    kwargs["libraries"] = [*kwargs.get("libraries", ()), build.LIBRARY, *(["cudart"] if with_cuda else [])]
    kwargs["language"] = "c++"
    if kwargs.get("py_limited_api"):
        warnings.warn(
            "py_limited_api: the module is built for this version of Python alone, since the C++ runtime uses all "
            "of Python's C API",
            stacklevel=3,
        )
        kwargs["py_limited_api"] = False
    made = setuptools.Extension(name, [os.fspath(s) for s in sources], *args, **kwargs)
    made.rushlight_dlink = (dlink, list(dlink_libraries))
    return made


class BuildExtension(build_ext):
    """`build_ext` for C++ and CUDA sources; `extra_compile_args` may be {"cxx": [...], "nvcc": [...]}."""

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The command with arguments given already: BuildExtension.with_options(use_ninja=False)."""

        class Chosen(cls):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                kwargs.update(options)
                super().__init__(*args, **kwargs)

        return Chosen

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        self.use_ninja = kwargs.pop("use_ninja", True) and build.ninja_command() is not None
        super().__init__(*args, **kwargs)

    def build_extensions(self) -> None:
        build.require_compiler(build.cxx_compiler())
        compiler = self.compiler
        compiler.src_extensions = [
            *compiler.src_extensions,
            *(s for s in build.CUDA_SOURCES if s not in compiler.src_extensions),
        ]
        for one in self.extensions:
            for source in one.sources:
                if source.endswith(".sycl"):
                    raise NotImplementedError(f"BuildExtension: SYCL sources are not built here, got {source}")
        super().build_extensions()

    def build_extension(self, ext: Any) -> None:
        given = ext.extra_compile_args
        flags = dict(given) if isinstance(given, dict) else {"cxx": list(given or ()), "nvcc": list(given or ())}
        flags = {"cxx": list(flags.get("cxx", ())), "nvcc": list(flags.get("nvcc", ()))}
        ext.extra_compile_args = []
        ext.extra_link_args = [*(ext.extra_link_args or ()), *inline.openmp_link_flags(flags["cxx"])]
        ext.define_macros = [
            *ext.define_macros,
            ("TORCH_EXTENSION_NAME", ext.name.rpartition(".")[2]),
            ("TORCH_API_INCLUDE_EXTENSION_H", None),
        ]
        own = self.compiler.compile
        self.compiler.compile = lambda sources, **how: self._compile(ext, flags, sources, **how)
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = own
            ext.extra_compile_args = given

    def _compile(
        self,
        ext: Any,
        flags: dict[str, list[str]],
        sources: Sequence[str],
        output_dir: str | None = None,
        macros: Any = None,
        include_dirs: Any = None,
        debug: bool = False,
        extra_preargs: Any = None,
        extra_postargs: Any = None,
        depends: Any = None,
    ) -> list[str]:
        """Compile the sources of one extension; gives the objects."""
        compiler = self.compiler
        macros, objects, post, options, _ = compiler._setup_compile(
            output_dir, macros, include_dirs, list(sources), depends, extra_postargs
        )
        base = _cxx_command(compiler)
        steps = []
        for source, made in zip(sources, objects, strict=True):
            made = str(Path(made).resolve())
            follow = ("-MMD", "-MF", f"{made}.d") if self.use_ninja else ()
            if source.endswith(build.CUDA_SOURCES):
                command = [
                    build.nvcc(build.cuda_home()),
                    *options,
                    *flags["nvcc"],
                    *inline.cuda_arch_flags(flags["nvcc"]),
                    "--compiler-options",
                    "-fPIC",
                ]
                command += (
                    ["-rdc=true"]
                    if getattr(ext, "rushlight_dlink", (False, []))[0] and "-rdc=true" not in command
                    else []
                )
            else:
                command = [*base, *options, *flags["cxx"], *(["-g", "-O0"] if debug else [])]
            if not any(f.startswith(("-std=", "--std=")) for f in command) and not source.endswith(".c"):
                command.append("-std=c++17")
            command += uses.without_layers([source], [*command[1:], *post], ())
            steps.append(
                Step(
                    made,
                    (str(Path(source).resolve()),),
                    (*command, *post, *follow, "-c", str(Path(source).resolve()), "-o", made),
                    "compile",
                )
            )
        folder = Path(output_dir or self.build_temp).resolve()
        folder.mkdir(parents=True, exist_ok=True)

        def run(steps: Sequence[Step]) -> None:
            if self.use_ninja:
                build.run_steps(ext.name, steps, folder, bool(self.verbose))
                return
            for step in steps:
                Path(step.output).parent.mkdir(parents=True, exist_ok=True)
                compiler.spawn(list(step.command))

        uses.run_with_fallback(run, steps)
        objects = [step.output for step in steps]
        return [*objects, *self._device_linked(ext, objects, folder)]

    def _device_linked(self, ext: Any, objects: list[str], folder: Path) -> list[str]:
        wanted, libraries = getattr(ext, "rushlight_dlink", (False, []))
        if not wanted:
            return []
        made = str(folder / f"{ext.name.rpartition('.')[2]}_dlink.o")
        parts = [
            build.nvcc(build.cuda_home()),
            "-dlink",
            *(o for o in objects),
            "-o",
            made,
            "--compiler-options",
            "-fPIC",
            *(f"-l{name}" for name in libraries),
            *(f"-L{path}" for path in ext.library_dirs),
        ]
        self.compiler.spawn(parts)
        return [made]

    def get_ext_filename(self, ext_name: str) -> str:
        """The name of the file; without Python's tag where `no_python_abi_suffix` asks for that."""
        name = super().get_ext_filename(ext_name)
        parts = name.split(".")
        return ".".join([parts[0], parts[-1]]) if self.no_python_abi_suffix and len(parts) > 2 else name


def _cxx_command(compiler: Any) -> list[str]:
    """What setuptools would compile C++ with, without options that are C's."""
    parts = list(getattr(compiler, "compiler_so_cxx", None) or compiler.compiler_so)
    if os.path.basename(parts[0]) in ("cc", "gcc", "clang"):
        parts[:1] = shlex.split(build.cxx_compiler())
    return [p for p in parts if p != "-Wstrict-prototypes"]
