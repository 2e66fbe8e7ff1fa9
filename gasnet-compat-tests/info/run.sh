#!/bin/sh
# What gasnet_info says about an installation and about this machine, compared with what the system says. Environment: PREFIX, CONDUIT, OUT (a
# scratch folder), CC. One line per test: PASS, FAIL or SKIP.
exec python3 -B "$(dirname -- "$0")/run.py"
