"""The namespaces `ops.quantized`, `ops._quantized`, `ops.quantized_decomposed` and `ops.onednn`, and packed weights.

Each op is a Python function under its schema (`namespace.define`), written over the integer-level definitions of
`definitions/quantized`. The files are imported when one of the namespaces is first asked for a name.
"""
