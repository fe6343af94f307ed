"""A nest to LLVM IR, in vectors where it pays, and LLVM IR to machine code."""
