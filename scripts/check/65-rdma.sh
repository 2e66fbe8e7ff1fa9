# Real RDMA: the conformance programs of verbs and of the ibv conduit over Linux's SoftRoCE and
# Debian's libibverbs, between the two devices of a virtual machine (scripts/rdma-vm). Correctness
# only: an emulated CPU is some 20 times slower.
. "$(dirname -- "$0")/lib.sh"
in_check_all "rdma (also make check-rdma)"
vm=$ROOT/scripts/rdma-vm/run

# in_vm SECONDS COMMAND...: this machine may be busy, so the time is ample. The conduit's tests pin
# 3 GiB, because they leave jobs behind that were stopped in a signal handler.
in_vm() {
    _seconds=$1
    shift
    TMPDIR=$WORK "$vm" --memory 6144 --timeout "$_seconds" "$@"
}

# softroce: whether the answers of the conformance program differ from the emulator's as
# softroce.txt says.
softroce() {
    _tests=$ROOT/emulators/verbs/tests
    in_vm 300 "$WORK/conformance" >"$WORK/answers" || return
    sed -n 's/^?/^/p' "$_tests/softroce.txt" >"$WORK/varies"
    grep -v -f "$WORK/varies" "$_tests/conformance.txt" >"$WORK/expected"
    grep -v -f "$WORK/varies" "$WORK/answers" | diff -U0 "$WORK/expected" - |
        grep '^[-+][^-+]' | sort >"$WORK/differences"
    grep '^[-+]' "$_tests/softroce.txt" | sort | diff - "$WORK/differences"
}

# conduit_tests: the conformance suite of the ibv conduit, whose tests alternate between the devices
# by rank. Not its plans, which are for emulators.
conduit_tests() {
    _program=$(cd "$ROOT" && CARGO_TARGET_DIR=$BUILD/unit timeout 1200 cargo test --locked -p gasnet-conduit-ibv \
        --test conformance --no-run 2>&1 | tee "$WORK/cargo" | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
    [ -n "$_program" ] || { cat "$WORK/cargo" && return 1; }
    cd "$ROOT" && IBV_TEST_EMULATOR=none in_vm 900 "$_program" --skip plans --test-threads 1
}

# jobs CONDUIT PREFIX SOURCE...: C programs on libgasnet-CONDUIT-par of an installation, each as a
# job of two ranks that reach each other by the network only, with a device each. They must succeed
# without arguments; add a program to the lists below. SETTINGS: of the environment in the machine.
SETTINGS=
jobs() {
    _conduit=$1 _prefix=$2
    shift 2
    _programs=$(mktemp -d "$WORK/jobs.XXXXXX")
    for _source; do
        # shellcheck disable=SC2046 # several options
        "$CC" -o "$_programs/$(basename -- "$_source" .c)" -I"$ROOT/gasnet-compat-tests/common" "$_source" \
            $(PKG_CONFIG_PATH=$_prefix/lib/pkgconfig pkg-config --cflags --libs "gasnet-$_conduit-par") || return
    done
    # shellcheck disable=SC2016 # for the shell in the machine
    GASNET_SUPERNODE_MAXSIZE=1 GASNET_QP_TIMEOUT=21 TEST_WATCHDOG=110 GASNET_OFI_PROVIDER='verbs;ofi_rxm' \
        GASNET_OFI_DEVICE_TYPE=HRank GASNET_OFI_DEVICE_0=rxe0 GASNET_OFI_DEVICE_1=rxe1 in_vm 900 sh -c '
        failed=0
        for program in "$1"/*; do
            # An emulated machine on a busy host may be late.
            for _ in 1 2; do
                timeout 120 env $3 "$2" -n 2 "$program" && continue 2
                echo "${program##*/}: exit status $?"
            done
            failed=1
        done
        exit $failed' jobs "$_programs" "$_prefix/bin/gasnetrun_$_conduit" "$SETTINGS"
}

# selftest PREFIX: the test of a site, between such ranks. Its report is lost with the machine.
selftest() {
    GASNET_SUPERNODE_MAXSIZE=1 GASNET_QP_TIMEOUT=21 in_vm 900 "$1/bin/gasnetrun_ibv" -n 2 \
        "$1/bin/gasnet_selftest" --quick --limit 200
}

if [ ! -e "$BUILD/rdma-vm/initrd" ] || ! command -v qemu-system-x86_64 >/dev/null; then
    skip "rdma: qemu or the kernel of the virtual machine is not installed (make setup-rdma)"
    finish
fi
scratch
conformance_program verbs "$WORK/conformance" -libverbs || finish
attempt "rdma: SoftRoCE answers as the emulator but for known differences" softroce
attempt "rdma: the ibv conduit over SoftRoCE" conduit_tests
# sources NAME...: their files, and one that needs no more than a job that starts.
sources() {
    echo "$ROOT/examples/client/hello.c"
    for _name; do echo "$ROOT/gasnet-compat-tests/$_name.c"; done
}

if [ -e "$STAGE_RELEASE/lib/libgasnet-ibv-par.a" ]; then
    # shellcheck disable=SC2046 # several programs
    attempt "rdma: jobs over SoftRoCE" jobs ibv "$STAGE_RELEASE" $(sources am/am_payload am/am_flood am/am_long_pieces \
        am/am_negotiated rma/rma_nonblocking rma/rma_ordering atomic/atomic_operations coll/reduce \
        vis/vis_random stress/mixer)
    attempt "rdma: gasnet_selftest over SoftRoCE" selftest "$STAGE_RELEASE"
    later=$BUILD/rdma-vm/libibverbs
    if [ -e "$later/libibverbs.so.1" ]; then
        provider=$(find /usr/lib -name 'librxe-rdmav*.so' -print -quit)
        SETTINGS="GASNET_IBV_LIBRARY=$later/libibverbs.so.1 LD_LIBRARY_PATH=$later RDMAV_DRIVERS=${provider%-*}"
        # shellcheck disable=SC2046 # several programs
        attempt "rdma: jobs over SoftRoCE by libibverbs of rdma-core 48" jobs ibv "$STAGE_RELEASE" \
            $(sources am/am_payload am/am_long_pieces rma/rma_nonblocking atomic/atomic_operations)
        SETTINGS=
    else
        skip "rdma: a later libibverbs: nixl-cu12 is not in $later (make setup-rdma fetches it from PyPI)"
    fi
else
    skip "rdma: jobs over SoftRoCE: the ibv conduit is not installed in $STAGE_RELEASE"
fi
if [ -e "$STAGE_RELEASE/lib/libgasnet-ofi-par.a" ]; then
    # shellcheck disable=SC2046 # several programs
    attempt "rdma: jobs over SoftRoCE by libfabric's verbs;ofi_rxm" jobs ofi "$STAGE_RELEASE" $(sources am/am_flood \
        am/am_long_pieces rma/rma_nonblocking rma/rma_ordering atomic/atomic_operations vis/vis_random)
else
    skip "rdma: jobs over verbs;ofi_rxm: the ofi conduit is not installed in $STAGE_RELEASE"
fi
# shellcheck disable=SC2016 # for the shell in the machine
in_vm 120 sh -c 'echo "$0 on $(uname -n)"; echo error >&2; exit 7' 'two words' >"$WORK/out" 2>"$WORK/err"
if [ $? -eq 7 ] && [ "$(cat "$WORK/out")" = "two words on rdma-vm" ] && [ "$(cat "$WORK/err")" = error ]; then
    pass "rdma: output and exit status of a command in the machine"
else
    fail "rdma: a command in the machine printed $(cat "$WORK/out" "$WORK/err")"
fi
in_vm 2 sleep 100 2>/dev/null
if [ $? -eq 124 ]; then pass "rdma: timeout of the machine"; else fail "rdma: the machine outlived its timeout"; fi
TMPDIR=$WORK timeout -s KILL 4 "$vm" sleep 100
# left: the remaining processes of the killed machine, which end one after another.
left() { find "$WORK" -name 'rdma-vm.*' && pgrep -f "$WORK/rdma-vm"; }
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -n "$(left)" ] || break
    sleep 1
done
good "rdma: nothing is left behind a kill" "$(left)"
finish
