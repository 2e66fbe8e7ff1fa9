# The same sources give the same bytes, whatever folder they lie in.
. "$(dirname -- "$0")/lib.sh"
in_check_all "reproducible build"
scratch
cd "$ROOT" || exit 1
for place in here another/place; do
    mkdir -p "$WORK/$place"
    git ls-files -z | xargs -0 cp --parents -t "$WORK/$place"
    attempt "reproducible build: in $place" make --no-print-directory -C "$WORK/$place" install CONDUITS=smp \
        MODES="seq par" DEBUG=0 DESTDIR= \
        BUILD="$WORK/$place/build" PREFIX="$WORK/prefix"
    mv "$WORK/prefix" "$WORK/$(basename "$place").prefix"
done
attempt "reproducible build: same files" diff -r "$WORK/here.prefix" "$WORK/place.prefix"
finish
