# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and
# ranks. A quick check takes of the less common configurations a part that SEED chooses. Time limits
# are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
compat_tests --no-scripts || failures=1

# ibv EMULATOR ENVIRONMENT: over an emulator with these options, with these settings.
ibv() {
    compat_tests --no-scripts --configurations release:ibv:1 --families "am rma atomic vis event coll" --modes par \
        --emulator "$1" --env "$2" || failures=1
}

# device_memory OPTION...: of ibv, as a dmabuf in several regions, by its address, and in messages.
device_memory() {
    for device in "--faults max-mr=2097152" "--faults no-dmabuf --faults peer-memory" "--faults no-dmabuf"; do
        compat_tests --slice "" --configurations release:ibv:1 --families mk --modes par \
            --emulator "--hcas 2 --faults no-odp $device" --env GASNET_IBV_MAX_HCAS=2 "$@" || failures=1
    done
}

if [ "$SCOPE" = all ]; then
    ibv "--hcas 2 --ports 2 --link roce --faults late" ""
    ibv "--hcas 2 --faults no-srq --faults late-visible" ""
    ibv "--hcas 2" "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_IBV_MAX_HCAS=2"
    ibv "--faults no-odp" "GASNET_USE_FIREHOSE=0 GASNET_NONBULKPUT_BOUNCE_LIMIT=1000"
    ibv "" "GASNET_AM_CREDITS_TOTAL=8 GASNET_AM_GATHER_MIN=1"
    device_memory
else
    device_memory --programs "mk_am mk_dmabuf mk_pairs" --np 2
fi
finish
