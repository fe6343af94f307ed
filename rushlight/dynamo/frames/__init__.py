"""Frames: a function being executed symbolically, and the instructions that steer it."""
