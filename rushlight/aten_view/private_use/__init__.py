"""Calls on PyTorch's device of others (PrivateUse1), as a back end of a program sees them."""
