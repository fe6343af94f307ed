"""Schedules for GPUs: nests whose outermost loop is one of threads, or of blocks that share the loops inside."""
