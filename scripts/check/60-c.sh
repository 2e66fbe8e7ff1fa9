# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and ranks. A quick check takes of the
# less common configurations a part that SEED chooses. Time limits are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
slice=
[ "$SCOPE" = all ] || slice=$SEED
python3 -B "$ROOT/scripts/check_c.py" --release "$STAGE_RELEASE" --debug "$STAGE_DEBUG" --slice "$slice" --timeout-factor 3 || failures=1
finish
