"""Programs that show `Timer`, `Compare` and the fuzzers: `python -m rushlight.utils.benchmark.examples.simple_timeit`,
and so on. Each takes seconds; `--quick` makes less of it."""
