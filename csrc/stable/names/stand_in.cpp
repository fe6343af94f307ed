// Nothing: the libraries made of this file have the names of PyTorch's and lead to rushlight._stable.
