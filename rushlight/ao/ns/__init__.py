"""`torch.ao.ns`: a quantized model compared with its float form, layer by layer."""
