#!/bin/sh
# soak.sh: STEPS of a quick check again and again for MINUTES, each round with a SEED of its own,
# which selects other parts of the matrices, and beside two busy loops. A test that fails now and
# then is defective. Failures are in build/soak.log; a round in which nothing passes is one.
. "$(dirname -- "$0")/common.sh"

MINUTES=${MINUTES:-60} STEPS=${STEPS:-unit c scripts faulty launch emulators}
case $MINUTES in '' | *[!0-9]*) echo "soak: MINUTES is '$MINUTES'; a number is expected" >&2; exit 2 ;; esac
for step in $STEPS; do
    [ -e "$(echo "$ROOT"/scripts/check/[0-9]*-"$step".sh)" ] || { echo "soak: there is no step '$step'" >&2; exit 2; }
done
log=$BUILD/soak.log
mkdir -p "$BUILD"
: >"$log"
loops=
trap 'kill $loops 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM PIPE
[ -d "$BUILD/stage-release" ] || "$ROOT/scripts/check.sh" quick build
# They end with this script, however that ends.
for _ in 1 2; do
    sh -c 'while kill -0 "$1" 2>/dev/null; do :; done' loop $$ &
    loops="$loops $!"
done
end=$(($(date +%s) + 60 * MINUTES)) round=0
while [ "$(date +%s)" -lt "$end" ]; do
    round=$((round + 1))
    status=0
    # shellcheck disable=SC2086 # several steps
    SEED=soak-$round "$ROOT/scripts/check.sh" quick $STEPS >"$BUILD/soak.round" 2>&1 || status=$?
    if [ "$status" -gt 1 ]; then
        cat "$BUILD/soak.round" >&2
        exit "$status"
    fi
    last=$(tail -n 1 "$BUILD/soak.round")
    if [ "$status" -ne 0 ] && ! grep -q '^FAIL ' "$BUILD/soak.round"; then echo "FAIL $last" >>"$BUILD/soak.round"; fi
    grep '^FAIL ' "$BUILD/soak.round" | sort -u | sed "s/^/round $round: /" | tee -a "$log"
    echo "round $round: $last"
done
echo "$round rounds, $(wc -l <"$log") failures"
[ ! -s "$log" ] && [ "$round" -gt 0 ]
