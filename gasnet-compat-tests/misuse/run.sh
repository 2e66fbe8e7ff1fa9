#!/bin/sh
# Erroneous calls by the specification, and the messages of the library. Environment: PREFIX,
# FLAVOUR, CONDUIT, MODES, SUPERNODE_MAXSIZE, OUT (a scratch folder); ONLY=pattern runs the cases
# whose names match. One line per case: PASS or FAIL.
exec python3 -B "$(dirname -- "$0")/run.py"
