#!/bin/sh
# mutants.sh: applies deliberate defects to a copy of the sources, one at a time, and runs for each
# the test that must catch it. MUTANTS="a b" takes only these; MUTANTS=cargo runs cargo-mutants
# instead. See docs/mutants.md.
. "$(dirname -- "$0")/../common.sh"
export ROOT BUILD CC
exec nice python3 "$ROOT/scripts/mutants/run.py"
