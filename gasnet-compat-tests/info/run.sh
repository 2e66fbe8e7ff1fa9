#!/bin/sh
# gasnet_info: its report about an installation and this machine, compared with the system.
# Environment: PREFIX, CONDUIT, OUT (a scratch folder), CC. One line per test: PASS, FAIL or SKIP.
exec python3 -B "$(dirname -- "$0")/run.py"
