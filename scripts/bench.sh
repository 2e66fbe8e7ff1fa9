#!/bin/sh
# bench.sh: builds gasnet_perf over this library, as archive and as shared library, and over the one
# installed in PEER_PREFIX, if that is set, and runs them in turns, after the machine's own limits.
# RANKS (2), RUNS (5), FIFO (real-time priority; none), CONDUIT (smp; of udp both take the number of
# ranks as first argument, and no neighbours), PERF (options and tests of gasnet_perf). Tables on
# standard output.
. "$(dirname -- "$0")/common.sh"

prefix=$BUILD/bench/ours conduit=${CONDUIT:-smp}
make -s -C "$ROOT" install PREFIX="$prefix" CONDUITS="$conduit" UNIVERSAL=0 DEBUG=0 SEGMENT=fast >&2
# built PREFIX PACKAGE OUT: gasnet_perf by a package's own flags. The run path is for shared
# libraries in folders of their own.
built() {
    # shellcheck disable=SC2046 # words
    (
        PKG_CONFIG_PATH=$1/lib/pkgconfig
        export PKG_CONFIG_PATH
        # shellcheck disable=SC2086
        for source in "$ROOT"/programs/perf/*.c; do
            $CC $(pkg-config --cflags "$2") -c "$source" -o "$3.$(basename "$source" .c).o"
        done
        # Another library may be written in C++.
        $CXX "$3".*.o -o "$3" $(pkg-config --libs "$2") -lm
    )
}
built "$prefix" "gasnet-$conduit-par" "$BUILD/bench/archive"
built "$prefix" "gasnet-$conduit-par-shared" "$BUILD/bench/shared"
$CC -O2 -I"$ROOT/programs/perf" "$ROOT/programs/benches/limits.c" "$ROOT/programs/perf/limits.c" \
    -o "$BUILD/bench/limits"
"$BUILD/bench/limits" "${RANKS:-2}"
echo
set -- "archive=$BUILD/bench/archive" "shared=$BUILD/bench/shared"
if [ -n "${PEER_PREFIX:-}" ]; then
    built "$PEER_PREFIX" "gasnet-$conduit-par" "$BUILD/bench/peer"
    set -- "$@" "peer=$BUILD/bench/peer"
fi
count=
if [ "$conduit" = udp ]; then
    count=--count
    export GASNET_SPAWNFN=L GASNET_SUPERNODE_MAXSIZE=1
fi
# shellcheck disable=SC2086 # PERF is words
exec python3 -B "$ROOT/programs/benches/compare.py" --ranks "${RANKS:-2}" --runs "${RUNS:-5}" \
    --fifo "${FIFO:-0}" $count "$@" \
    -- ${PERF:--p}
