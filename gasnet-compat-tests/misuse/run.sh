#!/bin/sh
# Erroneous calls by the specification, and the messages of the library: the programs here, whose
# tables of cases run.py reads, and calls.sh. Environment: PREFIX, FLAVOUR, CONDUIT, MODES,
# SUPERNODE_MAXSIZE, OUT (a scratch folder); ONLY=pattern runs the cases whose names match. One line
# per case: PASS or FAIL.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
status=0
python3 -B "$here/run.py" || status=1
sh "$here/calls.sh" || status=1
exit $status
