"""What schedules for CPUs and GPUs share: launches, ranges joined to loops, reads as sources, nests both start from."""
