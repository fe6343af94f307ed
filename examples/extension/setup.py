"""The same function as a package: `python -m rushlight run setup.py build_ext --inplace`."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="softclip",
    ext_modules=[CppExtension("softclip", ["softclip.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
