# The same sources give the same bytes, whatever folder they lie in: for this machine, and for
# another one by Debian's packages (emulated.sh).
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check/emulated.sh"
in_check_all "reproducible build"
scratch
cd "$ROOT" || exit 1

# twice NAME VARIABLE=VALUE...: builds smp in two folders, and compares.
twice() {
    _name=$1
    shift
    for place in here another/place; do
        mkdir -p "$WORK/$place"
        git ls-files -z | xargs -0 cp --parents -t "$WORK/$place"
        attempt "$_name: in $place" make --no-print-directory -C "$WORK/$place" install CONDUITS=smp \
            MODES="seq par" DEBUG=0 DESTDIR= \
            BUILD="$WORK/$place/build" PREFIX="$WORK/prefix" "$@"
        rm -rf "${WORK:?}/$place"
        mv "$WORK/prefix" "$WORK/$(basename "$place").prefix"
    done
    attempt "$_name: same files" diff -r "$WORK/here.prefix" "$WORK/place.prefix"
    without=
    for file in "$WORK"/here.prefix/lib/*.so.*.*.*; do
        readelf -n "$file" | grep -q 'Build ID' || without="$without ${file##*/}"
    done
    good "$_name: libraries have build ids" "$without"
    rm -rf "$WORK"/*.prefix
}

twice "reproducible build"
machine aarch64-linux-gnu arm64 aarch64
if [ "$(uname -m)" = aarch64 ]; then
    skip "reproducible cross build: arm64 is this machine"
elif why=$({ unpack_rust "$oldest" && unpack_tools; } 2>&1); then
    use_tools
    export RUSTC="$UNPACKED/rust/rustc"
    twice "reproducible cross build" CROSS="$machine" CC="$cc" CXX="$cxx"
else
    skip "reproducible cross build: no tools from Debian's packages: $(printf '%s\n' "$why" | tail -n 1)"
fi
finish
