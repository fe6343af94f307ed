"""`python -m benchmarks small large ...`: see benchmarks/run.py. `python -m benchmarks serving`: see serving.py."""

import sys

if sys.argv[1:2] == ["serving"]:
    from benchmarks import serving

    serving.run(set(sys.argv[2:]))
    raise SystemExit(0)

from benchmarks.run import main

raise SystemExit(main())
