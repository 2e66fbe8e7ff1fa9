#!/bin/sh
# Job exit. Environment: PREFIX (an installation), CONDUIT, MODES, SUPERNODE_MAXSIZE, QUICK (1:
# fewer kills), OUT (a scratch folder), SEED. One line per test: PASS, FAIL or SKIP.
exec python3 -B "$(dirname -- "$0")/run.py"
