#!/bin/sh
# soak.sh: STEPS of a quick check again and again for MINUTES, each round with a SEED of its own,
# which selects other parts of the matrices, and beside two busy loops. A test that fails now and
# then is defective. Failures are in build/soak.log.
. "$(dirname -- "$0")/common.sh"

MINUTES=${MINUTES:-60} STEPS=${STEPS:-unit c scripts faulty launch emulators}
log=$BUILD/soak.log
mkdir -p "$BUILD"
: >"$log"
loops=
trap 'kill $loops 2>/dev/null || :' EXIT
trap 'exit 1' HUP INT TERM
[ -d "$BUILD/stage-release" ] || "$ROOT/scripts/check.sh" quick build
for _ in 1 2; do
    sh -c 'while :; do :; done' &
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
    grep '^FAIL ' "$BUILD/soak.round" | sort -u | sed "s/^/round $round: /" | tee -a "$log"
    echo "round $round: $(tail -n 1 "$BUILD/soak.round")"
done
echo "$round rounds, $(wc -l <"$log") failures"
[ ! -s "$log" ] && [ "$round" -gt 0 ]
