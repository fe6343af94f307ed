"""The loop language: scalar expressions (`expr`), their functions and derivatives, and loop nests.

Enters: scalar functions of definitions, traced. Leaves: expressions, their derivatives, `Lowered` ops, and `Nest`s
that the code generator takes. Refuses: nests that `verify` finds illegal.
"""
