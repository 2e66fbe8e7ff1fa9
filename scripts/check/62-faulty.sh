# The C and C++ programs over a network that delays, reorders, refuses and splits, which only the
# debug flavour can do. A quick check runs one in four.
. "$(dirname -- "$0")/lib.sh"
[ "$SCOPE" = all ] && sample= || sample=$SEED
python3 -B "$ROOT/scripts/check/compat_tests.py" --debug "$STAGE_DEBUG" --configurations debug:sock:1 --modes par \
    --few-ranks "3 4" --no-scripts \
    --families "am rma event coll segment atomic vis mk" \
    --env "GASNET_FAULTS=seed=7,delay=0.2,reorder=0.3,busy=0.3,split=0.3" --sample "$sample" \
    --timeout-factor 4 >"$BUILD/faulty.log" 2>&1 || failures=1
sed 's/^\(PASS\|FAIL\|SKIP\) /&faulty network: /' "$BUILD/faulty.log"
finish
