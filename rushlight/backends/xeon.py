"""PyTorch's launcher for Xeon servers is a program of its own and not here;
this name is for programs that import it."""
