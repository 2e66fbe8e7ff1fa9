#!/bin/sh
# mutants.sh: puts deliberate defects into a copy of the sources, one after the other, and runs for
# each the test that must notice it. MUTANTS="a b" takes only these; MUTANTS_JOBS is how many tests
# run at once (2). See docs/mutants.md.
. "$(dirname -- "$0")/../common.sh"
export ROOT BUILD CC
exec nice python3 "$ROOT/scripts/mutants/run.py"
