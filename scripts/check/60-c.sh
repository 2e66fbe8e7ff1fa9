# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and
# ranks. A quick check takes of the less common configurations a part that SEED chooses. Time limits
# are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
compat_tests --no-scripts || failures=1

# punished CONDUIT EMULATOR ENVIRONMENT: over an emulator with these options, with these settings.
punished() {
    compat_tests --no-scripts --configurations "release:$1:1" --families "am rma atomic vis event coll" --modes par \
        --emulator "$2" --env "$3" || failures=1
}

# device_memory OPTION...: of ibv, as a dmabuf in several regions, by its address, and in messages.
device_memory() {
    for device in "--faults max-mr=2097152" "--faults no-dmabuf --faults peer-memory" "--faults no-dmabuf"; do
        compat_tests --slice "" --configurations release:ibv:1 --families mk --modes par \
            --emulator "--hcas 2 --faults no-odp $device" --env GASNET_IBV_MAX_HCAS=2 "$@" || failures=1
    done
}

if [ "$SCOPE" = all ]; then
    punished ibv "--hcas 2 --ports 2 --link roce --faults late" ""
    punished ibv "--hcas 2 --faults no-srq --faults late-visible" ""
    punished ibv "--hcas 2" "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_IBV_MAX_HCAS=2"
    punished ibv "--faults no-odp" "GASNET_USE_FIREHOSE=0 GASNET_NONBULKPUT_BOUNCE_LIMIT=1000"
    punished ibv "" "GASNET_AM_CREDITS_TOTAL=8 GASNET_AM_GATHER_MIN=1"
    punished gni "--flavour gemini --faults late --faults reorder" "GASNET_DOMAIN_COUNT=2"
    punished gni "--flavour aries --faults reorder" "GASNET_GNI_AM_RVOUS_CUTOVER=1"
    compat_tests --no-scripts --configurations "release:elan:1 release:elan:2" \
        --emulator "--flavour elan3 --faults late --faults reorder --faults must-not-wait --faults shuffle" || failures=1
    punished elan "--flavour elan4 --faults reorder --faults must-not-wait" \
        "GASNET_ELAN_AM_CREDITS=1 GASNET_ELAN_BUFFERS=8 GASNET_NETWORKDEPTH=1"
    device_memory
else
    device_memory --programs "mk_am mk_dmabuf mk_pairs" --np 2
fi
finish
