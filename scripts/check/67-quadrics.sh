# Jobs on an emulated QsNet: programs with elan that prun of RMS and srun, with Slurm's plugin
# switch/elan, start on several simulated nodes (emulators/README.md), directly and by
# gasnetrun_elan, and how such jobs end.
STEP=quadrics CONDUIT=elan EMULATOR=elan
. "$(dirname -- "$0")/vendor-jobs.sh"
# The program, and what its last rank prints.
place=$WORK/place good='rank 3 of 4'
run=$STAGE_RELEASE/bin/gasnetrun_elan
job "prun" 0 "$good" prun -n 4 -N 2 "$place"
job "prun, one rank on each node" 0 "$good" prun -n 4 -N 4 "$place"
job "prun, cyclic" 0 "$good" prun -n 4 -N 2 -m cyclic "$place"
job "prun of one rank" 0 'rank 0 of 1' prun -n 1 "$place"
job "srun" 0 "$good" srun -n 4 -N 2 "$place"
job "gasnetrun_elan" 0 "$good" "$run" -n 4 -N 2 "$place"
job "gasnetrun_elan, the command" 0 'running: .* prun -v -n 4 -N 2 -c 1 ' "$run" -v -n 4 -N 2 -c 1 "$place"
job "gasnetrun_elan in Slurm" 0 'running: .* srun -n 4 -N 2 ' env SLURM_JOB_ID=7 "$run" -v -n 4 -N 2 "$place"
job "gasnetrun_elan by PMIRUN_CMD" 0 "$good" env PMIRUN_CMD='prun -n %N -m cyclic %C' "$run" -n 4 "$place"
job "gasnetrun_elan without RMS" 0 "$good" "$run" -spawner=fork -n 4 "$place"
# PRRTE has a prun too, but no rinfo.
mkdir "$WORK/prrte"
cp /bin/false "$WORK/prrte/prun"
job "gasnetrun_elan beside another prun" 0 "$good" env PATH="$WORK/prrte:/usr/bin:/bin" "$run" -n 4 "$place"
job "gasnet_exit of all" 5 "$good" prun -n 4 -N 2 "$place" --end=exit:5
job "gasnet_exit of one, others compute" 7 "$good" prun -n 4 -N 2 "$place" --end=one:7
job "gasnet_exit of one, others poll" 8 'Exited with exit code 8' srun -n 4 -N 2 "$place" --end=poll:8
job "a rank kills itself" 137 'was killed by signal 9' prun -n 4 -N 2 "$place" --end=kill
job "a rank aborts" 137 'was killed by signal 6' prun -n 4 -N 2 "$place" --end=abort
job "a rank stops while others exit" 137 'was killed by signal 9' env GASNET_EXITTIMEOUT=1 prun -n 4 -N 2 "$place" \
    --end=stop
exits '' prun -n 4 -N 2
job "no shim" 1 'cannot open the shim' env GASNET_ELAN_SHIM=/nowhere prun -n 2 "$place"
finish
