# How jobs start and end on several hosts, which are namespaces of this machine (docs/testing.md,
# docs/launch.md): needs root and the packages of `scripts/setup.sh cluster`. A quick check takes
# the most important tests of udp, and the universal library and smp on one host. One test at a
# time: many wait for an event with a short time limit.
. "$(dirname -- "$0")/lib.sh"
compat_tests -n 0 -m hosts exit launch network || failures=1
finish
