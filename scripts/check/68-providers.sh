# C programs over libfabric's providers: the profiles of the strict provider (conduit-ofi/strict),
# and those of Debian's libfabric and of later versions, from wheels on PyPI. Over the later ones the
# conformance suite of the conduit runs, too. A quick check runs one program over three profiles.
. "$(dirname -- "$0")/lib.sh"
cd "$ROOT" || exit 1
CARGO_TARGET_DIR=$BUILD/unit
export CARGO_TARGET_DIR
SHOW_LINES=60
programs="smoke/testgasnet.c am/am_flood.c am/am_payload.c rma/rma_nonblocking.c atomic/atomic_mixed.c"

# over KIND PROGRAM|OPTION...: over these providers of libfabric.
over() {
    _kind=$1
    shift
    tests --lines="providers: " --library release="$STAGE_RELEASE" --configurations release:ofi:1 --modes par \
        --providers "$_kind" --timeout-factor 3 -n "$(nproc)" "$@" || failures=1
}

# conformance FOLDER: the conformance suite over TCP, of the libfabric in it. Builds with providers
# in files of their own are Intel's, which have no tcp;ofi_rxm.
conformance() {
    _names="over_tcp over_net"
    [ ! -e "$1/libtcp-fi.so" ] || _names=over_net
    # shellcheck disable=SC2086 # several names
    env GASNET_OFI_LIBRARY="$1/libfabric.so.1" FI_PROVIDER_PATH="$1" OFI_TEST_NET=tcp timeout 1800 \
        cargo test --quiet --locked -p gasnet-conduit-ofi --test conformance -- $_names
}

attempt "providers: build the strict provider" cargo build --quiet --locked -p gasnet-ofi-strict || finish
if [ "$SCOPE" = quick ]; then
    over "profiles:$SEED" --np 2 smoke/testgasnet.c
    finish
fi
# shellcheck disable=SC2086 # several programs
{
    over profiles --np "2 4" $programs
    over versions --np "2 4" $programs
}
for folder in "$BUILD"/libfabric/*/; do
    [ ! -d "$folder" ] ||
        attempt "providers: conformance over libfabric $(basename "$folder")" conformance "${folder%/}"
done
finish
