"""`python -m benchmarks small large ...`: see benchmarks/run.py. `python -m benchmarks serving`: see serving.py."""

import sys

if sys.argv[1:2] == ["serving"]:
    from benchmarks import serving

    serving.run(set(sys.argv[2:]))
    raise SystemExit(0)

if sys.argv[1:2] == ["book"]:
    from benchmarks import book

    raise SystemExit(book.run(sys.argv[2:]))

if sys.argv[1:2] == ["sweep"]:
    from benchmarks import sweep

    raise SystemExit(sweep.main(sys.argv[2:]))

if sys.argv[1:2] == ["extensions"]:
    from benchmarks import extensions

    raise SystemExit(extensions.run(sys.argv[2:]))

from benchmarks.run import main

raise SystemExit(main())
