# Jobs on an emulated Cray: programs with gni that aprun and srun start on several simulated nodes
# (emulators/README.md), directly and by gasnetrun_gni, and how such jobs end.
. "$(dirname -- "$0")/lib.sh"
tests launch/test_vendors.py -k cray --lines --library release="$STAGE_RELEASE" || failures=1
finish
