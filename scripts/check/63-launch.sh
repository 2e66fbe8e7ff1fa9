# How jobs start and end on several hosts, which are namespaces of this machine (docs/testing.md,
# docs/launch.md): needs root and the packages of `scripts/setup.sh cluster`. A quick check takes
# the most important tests of udp, and the universal library and smp on one host.
. "$(dirname -- "$0")/lib.sh"
if [ "$SCOPE" = all ]; then
    python3 -B "$ROOT/scripts/check/launch.py" --release "$STAGE_RELEASE" --debug "$STAGE_DEBUG" || failures=1
else
    python3 -B "$ROOT/scripts/check/launch.py" --release "$STAGE_RELEASE" --debug "$STAGE_DEBUG" --quick || failures=1
fi
finish
