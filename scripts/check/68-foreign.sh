# Programs that others wrote, unmodified, on the emulated verbs: perftest, UCX, Open MPI, MPICH
# (emulators/README.md, "Programs of others").
. "$(dirname -- "$0")/lib.sh"
in_check_all foreign
EMULATORS=$BUILD/emulators
export EMULATORS
if [ ! -e /usr/include/infiniband/verbs.h ]; then
    skip "foreign: libibverbs-dev is not installed"
    finish
fi
attempt "foreign: build the emulator" env CARGO_TARGET_DIR="$EMULATORS/target" \
    "$ROOT/emulators/verbs/build.sh" "$EMULATORS/verbs" || finish
python3 -B "$ROOT/emulators/verbs/foreign/foreign.py" || failures=1
finish
