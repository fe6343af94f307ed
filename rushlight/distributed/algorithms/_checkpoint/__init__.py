"""`torch.distributed.algorithms._checkpoint`: wrappers that trade activations for time."""
