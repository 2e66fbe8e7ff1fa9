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

# over_ucx TRANSPORT VARIABLE=VALUE FAMILY...: C programs of ucx over a transport for InfiniBand of
# Debian's UCX.
over_ucx() {
    _transport=$1 _variable=$2
    shift 2
    # shellcheck disable=SC2016 # for the other shell
    "$ROOT/emulators/verbs/foreign/uverbs.sh" sh -c '. "$ROOT/scripts/pytest.sh" && tests "$@"' tests \
        "$@" --lines="ucx over $_transport, $_variable: " --library release="$STAGE_RELEASE" \
        --configurations release:ucx:1 --modes par --few-ranks "2 3" --timeout-factor 3 \
        --wrapper "$ROOT/scripts/with-emulator verbs" --env "UCX_TLS=$_transport,self" --env "$_variable" \
        -n "$(nproc)" || failures=1
}
if [ "$(id -u)" != 0 ]; then
    skip "ucx over InfiniBand: needs root, for device files"
elif [ -z "$(find /usr/lib -name 'libuct_ib.so.0' -print -quit)" ]; then
    skip "ucx over InfiniBand: libucx0 is not installed"
else
    for transport in rc_v ud_v; do over_ucx $transport GASNET_UCX_ATOMICS=0 am rma event atomic coll vis; done
    over_ucx rc_v GASNET_UCX_ATOMICS=1 atomic
fi
finish
