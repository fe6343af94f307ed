"""Instructions as text: a writer of LLVM IR, primitive operations, registers, and the targets they are written for."""
