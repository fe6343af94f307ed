"""`python -m benchmarks small large ...`: see benchmarks/run.py."""

from benchmarks.run import main

raise SystemExit(main())
