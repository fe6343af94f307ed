"""Attention: the public op and its forms, by blocks, on tile registers, on devices, over heads."""
