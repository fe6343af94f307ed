"""ONNX files as modules. See docs/onnx.md.

Enters: files, bytes, `onnx.ModelProto`s. Leaves: `fx.GraphModule`s that compute what they say and train; results of one
call. Operators are rules, a family to a file (`rules/`); what is not covered, `unsupported(model)` says.
"""
