"""`torch.ao.quantization.fx`: models quantized as graphs.

A traced model goes through four passes, each a file: `fuse` makes modules that compute as one into one, `prepare` puts
observers between operators, `convert` turns observers into quantize and dequantize pairs (the reference model),
`lowering` replaces dequantize-operator-quantize by quantized operators.
"""
