# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and ranks. A quick check takes of the
# less common configurations a part that SEED chooses. Time limits are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
slice=
[ "$SCOPE" = all ] || slice=$SEED
other=
for name in release-large release-everything debug-large debug-everything; do
    [ ! -d "$BUILD/stage-$name" ] || other="$other $name=$BUILD/stage-$name"
done
python3 -B "$ROOT/scripts/check_c.py" --release "$STAGE_RELEASE" --debug "$STAGE_DEBUG" --other "$other" --slice "$slice" --timeout-factor 3 || failures=1
# The same over a network that delays, reorders, refuses and cuts.
python3 -B "$ROOT/scripts/check_c.py" --release "$STAGE_RELEASE" --configurations release:sock:1 --modes par --few-ranks "3 4" --no-scripts \
    --families "am rma event barrier coll endpoint atomic vis" --env "GASNET_FAULTS=seed=7,delay=0.2,reorder=0.3,busy=0.3,split=0.3" --sample "$slice" \
    --timeout-factor 4 >"$BUILD/faulty.log" 2>&1 || failures=1
sed 's/^\(PASS\|FAIL\|SKIP\) /&faulty network: /' "$BUILD/faulty.log"
finish
