"""PyTorch's `torch._inductor.codegen`: what back ends register for their devices."""
