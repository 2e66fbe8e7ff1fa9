# Tests in Python of gasnet-compat-tests: how jobs start, end, fail, report and are misused. The
# same part as in step `c`.
. "$(dirname -- "$0")/lib.sh"
# shellcheck disable=SC2046 # several files
compat_tests --dist loadgroup -m "not hosts and not vendors" \
    $(cd "$ROOT/gasnet-compat-tests" && ls -- */test_*.py) || failures=1
# Recordings of clients over networks that delay and reorder; in a quick check one recording over
# each network.
if [ "$SCOPE" = quick ]; then
    set -- "$ROOT/gasnet-compat-tests/record/clients"/*.tar.xz
    shift "$(($(printf %s "$SEED" | cksum | cut -d' ' -f1) % $#))"
    tests record/test_clients.py -k "$(basename "$1" .tar.xz)" --lines --slice "" --part "" --modes par -n "$(nproc)" \
        --timeout-factor 3 --configurations "$(for conduit in $(conduits_of release); do
            case $conduit in smp | mpi) ;; *) echo "release:$conduit:1" ;; esac
        done)" || failures=1
else
    for words in "ibv --hcas 2 --faults late" "ibv --faults no-srq --faults late-visible" \
        "gni --flavour gemini --faults late --faults reorder" \
        "elan --flavour elan4 --faults reorder --faults must-not-wait"; do
        compat_tests record/test_clients.py --configurations "release:${words%% *}:1" --modes par \
            --emulator "${words#* }" || failures=1
    done
fi
finish
