"""The torch dialect: a program's calls by the names that torch-mlir has for them."""
