# Both flavours of all conduits, built and installed into build/stage-*. Everything after this step
# uses these installations.
. "$(dirname -- "$0")/lib.sh"
rm -rf "$STAGE_RELEASE" "$STAGE_DEBUG"
build() {
    _flavour=release
    [ "$1" = 0 ] || _flavour=debug
    make --no-print-directory -C "$ROOT" install CONDUITS="$(conduits_of "$_flavour")" \
        MODES="seq parsync par" DEBUG="$1" DESTDIR= PREFIX="$2" SEGMENT="${3:-fast}"
}
attempt "build release" build 0 "$STAGE_RELEASE"
attempt "build debug" build 1 "$STAGE_DEBUG"
for segment in large everything; do
    rm -rf "$STAGE_RELEASE-$segment" "$STAGE_DEBUG-$segment"
    attempt "build release, $segment" build 0 "$STAGE_RELEASE-$segment" "$segment"
    [ "$SCOPE" != all ] || attempt "build debug, $segment" build 1 "$STAGE_DEBUG-$segment" "$segment"
done
finish
