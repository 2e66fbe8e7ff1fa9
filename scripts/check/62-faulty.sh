# The C and C++ programs over a network that delays, reorders, refuses and splits, which only the
# debug flavour can do. A quick check runs one in four.
. "$(dirname -- "$0")/lib.sh"
[ "$SCOPE" = all ] && sample= || sample=$SEED
tests am rma event coll segment atomic vis mk --lines="faulty network: " --configurations debug:sock:1 --modes par \
    --few-ranks "3 4" --env "GASNET_FAULTS=seed=7,delay=0.2,reorder=0.3,busy=0.3,split=0.3" --sample "$sample" \
    --timeout-factor 4 -n "$(nproc)" || failures=1
finish
