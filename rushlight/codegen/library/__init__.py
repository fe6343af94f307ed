"""Library kernels: IR text written by hand-made writers,
for what no loop nest describes (register tiles over packed windows).

Enters: a dtype, for this machine or a named target. Leaves: kernels with the usual ABI, each behind a declared
`Interface` (interface.py). Refuses: dtypes that an interface does not list;
sizes are the planners' business (planners/convolutions/convolve.py).
"""
