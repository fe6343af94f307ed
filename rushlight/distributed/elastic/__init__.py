"""`torch.distributed.elastic`: jobs whose machines come and go, and what their processes tell of their ends."""
