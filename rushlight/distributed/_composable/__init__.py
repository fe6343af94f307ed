"""`torch.distributed._composable`: former places of names."""
