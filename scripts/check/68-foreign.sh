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

# over_ucx TRANSPORT: C programs of ucx over a transport of Debian's UCX for InfiniBand.
over_ucx() {
    # shellcheck disable=SC2016 # for the other shell
    "$ROOT/emulators/verbs/foreign/uverbs.sh" sh -c '. "$ROOT/scripts/pytest.sh" && tests "$@"' tests \
        am rma event atomic coll vis --lines="ucx over $1: " --library release="$STAGE_RELEASE" \
        --configurations release:ucx:1 --modes par --few-ranks "2 3" --timeout-factor 3 \
        --wrapper "$ROOT/scripts/with-emulator verbs" --env "UCX_TLS=$1,self" -n "$(nproc)" || failures=1
}
if [ "$(id -u)" != 0 ]; then
    skip "ucx over InfiniBand: needs root, for device files"
elif [ -z "$(find /usr/lib -name 'libuct_ib.so.0' -print -quit)" ]; then
    skip "ucx over InfiniBand: libucx0 is not installed"
else
    for transport in rc_v ud_v; do over_ucx $transport; done
fi
finish
