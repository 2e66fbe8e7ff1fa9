#!/bin/sh
# What the specification calls erroneous, and what the library says about it. Environment: PREFIX, FLAVOUR, CONDUIT, MODES, SUPERNODE_MAXSIZE,
# OUT (a scratch folder); ONLY=pattern takes the cases whose names match. One line per case: PASS or FAIL.
exec python3 -B "$(dirname -- "$0")/run.py"
