#!/bin/sh
# programs.sh: `make check-programs DIR=…`: builds and installs the flavour asked for into build/,
# then compiles and runs every program of DIR with it and writes build/check-programs.md.
# PREFIX_USED=… takes an existing installation instead.
. "$(dirname -- "$0")/../common.sh"

mkdir -p "$BUILD"
: "${DIR:?say which folder: make check-programs DIR=...}"
[ -d "$DIR" ] || { echo "programs: there is no folder '$DIR'" >&2; exit 2; }
CONDUIT=${CONDUIT:-smp} MODE=${MODE:-par}
prefix=${PREFIX_USED:-}
if [ -z "$prefix" ]; then
    unset MAKEFLAGS MFLAGS
    prefix=$BUILD/programs-$FLAVOUR
    modes=$(for mode in $MODE; do case $mode in tools-*) ;; *) printf '%s ' "$mode" ;; esac; done)
    make -C "$ROOT" --no-print-directory install CONDUITS="$CONDUIT" MODES="${modes:-par}" DEBUG="$DEBUG" DESTDIR= \
        PREFIX="$prefix"
fi
PYTHONPATH=$ROOT/gasnet-compat-tests/support
export PYTHONPATH
exec python3 -B "$ROOT/scripts/check/programs.py" --dir "$DIR" --prefix "$prefix" --conduit "$CONDUIT" --mode "$MODE" \
    --flavour "$FLAVOUR" --np "${NP:-1 2 3 4 7 16}" --tests "${TESTS:-}" --skip "${SKIP:-}" \
    --timeout "${TIMEOUT:-120}" --emulator "${EMULATOR:-}" \
    --extra "${EXTRA:-}" --env "${ENV:-}" --args "${ARGS:-}" --done "${DONE:-done|PASS}" --closing "${CLOSING:-}" \
    --table "$BUILD/check-programs.md"
