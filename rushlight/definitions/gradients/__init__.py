"""Gradients of layers as ops of their own, under the names and with the arguments that ATen gives them.

Programs and passes written for PyTorch call them (`ops.aten.gelu_backward`); our own tape does not. Each is written
with what the layer's definition is differentiated by.
"""
