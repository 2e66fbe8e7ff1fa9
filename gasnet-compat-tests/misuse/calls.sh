#!/bin/sh
# Erroneous calls whose outcome a line of output shows: messages, transfers, atomics, locks,
# scattered transfers, device memory, exceptions. See common/expect.sh.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
family=misuse
. "$here/../common/expect.sh"

build "$OUT/bad: $here/bad.c
	\$(C) -o \$@ \$< \$(LINK)
$OUT/bad_vis: $here/bad_vis.c
	\$(C) -o \$@ \$< \$(LINK)
$OUT/bad_mk: $here/bad_mk.c
	\$(C) -I$here/../common -o \$@ \$< \$(LINK)
$OUT/throws: $here/throws.cc
	\$(CXX) -o \$@ \$< \$(LINK)" bad bad_vis bad_mk throws
bad=$OUT/bad

expect fine 0 '^fine: 4 ranks' "$run" 4 "$bad"
expect throw-from-request bad 'the_throwing_handler' "$run" 3 "$OUT/throws"
expect throw-from-reply bad 'the_throwing_handler' "$run" 3 "$OUT/throws" reply
expect prepared-offset bad 'GEX_FLAG_SELF_SEG_OFFSET' "$run" 2 "$bad" prepared-offset
for what in rank-am rank-put; do expect $what bad "rank [0-9]+ is not in" "$run" 2 "$bad" $what; done
expect endpoint-am bad 'endpoint 9, which does not exist' "$run" 2 "$bad" endpoint-am
expect endpoint-none bad 'gex_TM_Pair was given GEX_EP_INVALID' "$run" 2 "$bad" endpoint-none
if [ "$FLAVOUR" = debug ]; then
    expect atomic-bits-of-float bad 'GEX_DT_FLT' "$run" 2 "$bad" atomic-bits-of-float
    expect handler-index bad '250' "$run" 2 "$bad" handler-index
    for what in address-put address-get address-span; do expect $what bad 'segment' "$run" 2 "$bad" $what; done
    expect two-places bad 'exclude' "$run" 2 "$bad" two-places
    for what in not-bound offset-beyond; do expect $what bad 'promises' "$run" 2 "$bad" $what; done
    expect too-long bad 'payload|bytes' "$run" 2 "$bad" too-long
    for what in poll-in-handler request-in-handler; do expect $what bad 'handler' "$run" 2 "$bad" $what; done
    expect two-replies bad 'repl' "$run" 2 "$bad" two-replies
    for what in not-held in-handler in-reply destroyed destroyed-twice twice try-twice order poll; do
        expect lock-$what bad 'handler-safe lock' "$run" 2 "$bad" lock-$what
    done
    expect atomic-type bad 'GEX_DT_U64' "$run" 2 "$bad" atomic-type
    for what in operation two-operations; do expect atomic-$what bad 'operation' "$run" 2 "$bad" atomic-$what; done
    expect atomic-no-result bad 'result_p' "$run" 2 "$bad" atomic-no-result
    for what in rank jobrank; do expect atomic-$what bad 'rank [0-9]+ is not in' "$run" 2 "$bad" atomic-$what; done
    expect atomic-not-mine bad 'localit' "$run" 2 "$bad" atomic-not-mine
    expect atomic-in-handler bad 'on_atomic' "$run" 2 "$bad" atomic-in-handler
    expect atomic-destroyed bad 'destroyed' "$run" 2 "$bad" atomic-destroyed
    expect atomic-no-domain bad 'GEX_AD_INVALID' "$run" 2 "$bad" atomic-no-domain
fi
expect atomic-outside bad 'segment' "$run" 2 "$bad" atomic-outside
expect atomic-misaligned bad 'aligned' "$run" 2 "$bad" atomic-misaligned
expect atomic-two-types bad 'dt' "$run" 2 "$bad" atomic-two-types
expect atomic-pair bad 'TM-pair' "$run" 2 "$bad" atomic-pair
if [ "$FLAVOUR" = debug ]; then
    for what in length indexed-length; do expect vis-$what bad 'the same' "$run" 2 "$OUT/bad_vis" $what; done
    for what in null-list null-local; do expect vis-$what bad 'null' "$run" 2 "$OUT/bad_vis" $what; done
    expect vis-twice bad 'destination twice' "$run" 2 "$OUT/bad_vis" twice
    expect vis-rank bad 'rank' "$run" 2 "$OUT/bad_vis" rank
    for what in in-get in-immediate; do expect vis-$what bad 'PeerCompletion' "$run" 2 "$OUT/bad_vis" $what; done
fi
for what in outside outside-strided before-strided; do
    expect vis-$what bad 'segment' "$run" 2 "$OUT/bad_vis" $what
done
expect vis-too-many bad 'more bytes' "$run" 2 "$OUT/bad_vis" too-many
for what in payload handler; do expect vis-$what bad 'PeerCompletion' "$run" 2 "$OUT/bad_vis" $what; done
expect vis-unregistered bad '201' "$run" 2 "$OUT/bad_vis" unregistered
expect segment-huge bad 'segment|bytes' "$run" 2 "$bad" segment-huge
expect segment-odd 0 '^fine: 2' "$run" 2 "$bad" segment-odd
expect segment-zero bad 'page|segment' "$run" 2 "$bad" segment-zero
expect segment-max 0 '^fine: 2' "$run" 2 "$bad" segment-max

# ---- device memory: stand-ins for the vendors' libraries ----

if ! "$here/../../emulators/devices/build.sh" "$OUT/devices" >"$OUT/log" 2>&1; then
    echo "FAIL $family/devices: the stand-ins do not compile"
    cat "$OUT/log"
    exit 1
fi
devices=$OUT/devices${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mk() { # NAME PATTERN
    expect "mk-$1" bad "$2" env LD_LIBRARY_PATH="$devices" "$run" 2 "$OUT/bad_mk" "$1"
}
expect mk-fine 0 '^fine: 2' env LD_LIBRARY_PATH="$devices" "$run" 2 "$OUT/bad_mk"
for what in local-host local-end medium-host; do mk $what 'local range.*CUDA device 0'; done
for what in remote-end own-end; do mk $what 'remote range.*segment'; done
mk collective 'collectives move host memory'
mk scratch 'NO_SCRATCH'
for what in atomic atomic-own; do mk $what 'remote atomics work on host memory'; done
mk kind-in-use 'still exists'
mk kind-invalid 'GEX_MK_INVALID'
mk kind-twice 'not a memory kind'
for what in copy-here copy-there sync-here; do
    mk $what 'cannot copy.*CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal'
done
mk freed 'cannot copy.*CUDA_ERROR_INVALID_VALUE \(invalid argument'
mk touch 'SIGSEGV|signal 11|Segmentation'
[ "$FLAVOUR" != debug ] || mk handler 'inside AM handler 200'
exit $failed
