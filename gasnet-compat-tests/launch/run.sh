#!/bin/sh
# Job start. Environment: PREFIX (an installation), CONDUIT, MODES, SUPERNODE_MAXSIZE, QUICK, OUT (a
# scratch folder). One line per test: PASS, FAIL or SKIP.
exec python3 -B "$(dirname -- "$0")/run.py"
