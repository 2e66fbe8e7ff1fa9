# Deliberate defects, each caught by a test: those of protocols, and those that cargo-mutants makes.
. "$(dirname -- "$0")/lib.sh"
in_full_check "mutants (also make mutants)"
"$ROOT/scripts/check/mutants.sh" || failures=$((failures + 1))
MUTANTS=cargo "$ROOT/scripts/check/mutants.sh" || failures=$((failures + 1))
finish
