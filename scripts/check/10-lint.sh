# Formatting, clippy, shell syntax.
. "$(dirname -- "$0")/lib.sh"
SHOW_LINES=60
attempt lint "$ROOT/scripts/lint.sh"
finish
