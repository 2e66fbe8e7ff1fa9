# The demonstration works from the installation.
. "$(dirname -- "$0")/lib.sh"
OUT=$BUILD/check-demo
export OUT
attempt "demo: heat solver on 4 ranks" timeout 300 sh "$ROOT/examples/heat2d/demo.sh" "$STAGE_RELEASE"
finish
