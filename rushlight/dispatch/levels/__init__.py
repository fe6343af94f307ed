"""Interpreters of transforms: what a level of `grad`, `jvp`, `vmap` or `functionalize` makes of each call of an op."""
