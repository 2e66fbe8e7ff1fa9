# Both flavours of all conduits, built and installed into build/stage-*. Everything after this step
# uses these installations.
. "$(dirname -- "$0")/lib.sh"
rm -rf "$STAGE_RELEASE" "$STAGE_DEBUG"
# build 0|1 PREFIX CONDUITS [OPTION...]: release or debug.
build() {
    _debug=$1 _prefix=$2 _conduits=$3
    shift 3
    make --no-print-directory -j "$(nproc)" -C "$ROOT" install CONDUITS="$_conduits" MODES="seq parsync par" \
        DEBUG="$_debug" DESTDIR= PREFIX="$_prefix" "$@"
}
attempt "build release" build 0 "$STAGE_RELEASE" "$(conduits_of release)"
attempt "build debug" build 1 "$STAGE_DEBUG" "$(conduits_of debug)"
for segment in large everything; do
    rm -rf "$STAGE_RELEASE-$segment" "$STAGE_DEBUG-$segment"
    # Those that the matrix of step c has.
    attempt "build release, $segment" build 0 "$STAGE_RELEASE-$segment" "smp elan ibv udp sock" UNIVERSAL=0 \
        SEGMENT=$segment
    [ "$SCOPE" != all ] || attempt "build debug, $segment" build 1 "$STAGE_DEBUG-$segment" "smp sock" UNIVERSAL=0 \
        SEGMENT=$segment
done
finish
