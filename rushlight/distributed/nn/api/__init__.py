"""`torch.distributed.nn.api`."""
