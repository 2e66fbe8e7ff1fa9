# Jobs on an emulated QsNet: programs with elan that prun of RMS and srun, with Slurm's plugin
# switch/elan, start on several simulated nodes (emulators/README.md), directly and by
# gasnetrun_elan, and how such jobs end.
. "$(dirname -- "$0")/lib.sh"
tests launch/test_vendors.py -k quadrics --lines --library release="$STAGE_RELEASE" || failures=1
finish
