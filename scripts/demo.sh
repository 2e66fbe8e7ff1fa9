#!/bin/sh
# demo.sh: from a fresh machine to a picture: packages, build, local installation, the heat solver
# on 4 ranks, a latency table.
. "$(dirname -- "$0")/common.sh"

unset MAKEFLAGS MFLAGS
"$ROOT/scripts/setup.sh" build
make -C "$ROOT" install CONDUITS=smp MODES="seq parsync par" DEBUG=0 DESTDIR= PREFIX="$BUILD/demo"
echo
OUT=$BUILD/demo-run RANKS=${RANKS:-4} exec sh "$ROOT/examples/heat2d/demo.sh" "$BUILD/demo"
