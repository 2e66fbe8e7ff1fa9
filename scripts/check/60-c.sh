# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and
# ranks. A quick check takes of the less common configurations a part that SEED chooses. Time limits
# are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
compat_tests --no-scripts || failures=1

# device_memory OPTION...: of ibv, as a dmabuf in several regions, by its address, and in messages.
device_memory() {
    for device in "--faults max-mr=2097152" "--faults no-dmabuf --faults peer-memory" "--faults no-dmabuf"; do
        compat_tests --slice "" --configurations release:ibv:1 --families mk --modes par \
            --emulator "--hcas 2 --faults no-odp $device" --env GASNET_IBV_MAX_HCAS=2 "$@" || failures=1
    done
}

if [ "$SCOPE" = all ]; then
    for emulator in "--hcas 2 --ports 2 --link roce --faults late" "--hcas 2 --faults no-srq --faults late-visible"; do
        compat_tests --no-scripts --configurations release:ibv:1 --families "am rma atomic vis event coll" \
            --modes par --emulator "$emulator" || failures=1
    done
    device_memory
else
    device_memory --programs "mk_am mk_dmabuf mk_pairs" --np 2
fi
finish
