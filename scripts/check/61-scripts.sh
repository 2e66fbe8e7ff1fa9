# Tests in Python of gasnet-compat-tests: how jobs start, end, fail, report and are misused. The
# same part as in step `c`.
. "$(dirname -- "$0")/lib.sh"
# shellcheck disable=SC2046 # several files
compat_tests --dist loadgroup -m "not hosts and not vendors" \
    $(cd "$ROOT/gasnet-compat-tests" && ls -- */test_*.py) || failures=1
# Recordings of clients over networks that delay and reorder.
if [ "$SCOPE" = all ]; then
    for words in "ibv --hcas 2 --faults late" "ibv --faults no-srq --faults late-visible" \
        "gni --flavour gemini --faults late --faults reorder" \
        "elan --flavour elan4 --faults reorder --faults must-not-wait"; do
        compat_tests record/test_clients.py --configurations "release:${words%% *}:1" --modes par \
            --emulator "${words#* }" || failures=1
    done
fi
finish
