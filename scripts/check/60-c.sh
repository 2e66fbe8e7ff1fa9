# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and
# ranks. A quick check takes of the less common configurations a part that SEED chooses.
# shellcheck disable=SC2046 # several families
. "$(dirname -- "$0")/lib.sh"
calls="am rma atomic vis event coll"
compat_tests $(families) || failures=1

# with_faults CONDUIT EMULATOR ENVIRONMENT: over an emulator with these options and settings.
with_faults() {
    # shellcheck disable=SC2086 # several families
    compat_tests $calls --configurations "release:$1:1" --modes par --emulator "$2" --env "$3" || failures=1
}

# device_memory PROGRAM|OPTION...: of ibv, as a dmabuf in several regions, by its address, and in
# messages.
device_memory() {
    for device in "--faults max-mr=2097152" "--faults no-dmabuf --faults peer-memory" "--faults no-dmabuf"; do
        compat_tests --slice "" --part "" --configurations release:ibv:1 --modes par \
            --emulator "--hcas 2 --faults no-odp $device" --env GASNET_IBV_MAX_HCAS=2 "$@" || failures=1
    done
}

if [ "$SCOPE" = all ]; then
    with_faults ibv "--hcas 2 --ports 2 --link roce --faults late" ""
    with_faults ibv "--hcas 2 --faults no-srq --faults late-visible" ""
    with_faults ibv "--hcas 2" "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_IBV_MAX_HCAS=2"
    with_faults ibv "--faults no-odp" "GASNET_USE_FIREHOSE=0 GASNET_NONBULKPUT_BOUNCE_LIMIT=1000"
    with_faults ibv "" "GASNET_AM_CREDITS_TOTAL=8 GASNET_AM_GATHER_MIN=1"
    with_faults gni "--flavour gemini --faults late --faults reorder" "GASNET_DOMAIN_COUNT=2"
    with_faults gni "--flavour aries --faults reorder" "GASNET_GNI_AM_RVOUS_CUTOVER=1"
    compat_tests $(families) --configurations "release:elan:1 release:elan:2" \
        --emulator "--flavour elan3 --faults late --faults reorder --faults must-not-wait --faults shuffle" || failures=1
    with_faults elan "--flavour elan4 --faults reorder --faults must-not-wait" \
        "GASNET_ELAN_AM_CREDITS=1 GASNET_ELAN_BUFFERS=8 GASNET_NETWORKDEPTH=1"
    device_memory mk
else
    device_memory mk/mk_am.c mk/mk_dmabuf.c mk/mk_pairs.c --np 2
fi
finish
