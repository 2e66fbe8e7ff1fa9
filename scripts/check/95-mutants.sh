# Deliberate defects, each caught by a named test.
. "$(dirname -- "$0")/lib.sh"
if [ "$SCOPE" != all ]; then
    skip "mutants: run in make check-all"
elif [ -x "$ROOT/scripts/check/mutants.sh" ]; then
    "$ROOT/scripts/check/mutants.sh" || failures=1
else
    skip "mutants: scripts/check/mutants.sh does not exist"
fi
finish
