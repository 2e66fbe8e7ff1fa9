# Jobs on an emulated Cray: programs with gni that aprun and srun start on several simulated nodes
# (emulators/README.md), directly and by gasnetrun_gni, and how such jobs end.
STEP=cray CONDUIT=gni EMULATOR=ugni
. "$(dirname -- "$0")/vendor-jobs.sh"
# The program, and what its last rank prints.
place=$WORK/place good='rank 3 of 4'
run=$STAGE_RELEASE/bin/gasnetrun_gni
job "aprun" 0 "$good" aprun -n 4 -N 2 "$place"
job "aprun, one rank on each node" 0 "$good" aprun -n 4 -N 1 "$place"
job "aprun of one rank" 0 'rank 0 of 1' aprun -n 1 "$place"
job "aprun, credentials as lists" 0 "$good" env EMU_PMI="seed=7 colon-lists" aprun -n 4 -N 3 "$place"
job "aprun, no device" 0 "$good" env EMU_PMI=no-dev-id aprun -n 4 -N 2 "$place"
job "srun" 0 "$good" srun -K0 -W60 -v -mblock -n 4 -N 2 "$place"
job "srun, cyclic, only CRAY_COOKIES" 0 "$good" env EMU_PMI=cookies-only srun -mcyclic -n 4 -N 2 "$place"
job "gasnetrun_gni" 0 "$good" "$run" -n 4 -N 2 "$place"
job "gasnetrun_gni by PMIRUN_CMD" 0 "$good" env PMIRUN_CMD='srun -K0 -W60 %V -mblock -n %N %C' "$run" -n 4 "$place"
job "gasnetrun_aries" 0 "$good" "$STAGE_RELEASE/bin/gasnetrun_aries" -spawner=pmi -n 4 -N 2 "$place"
job "gasnetrun_gni without Cray's launcher" 0 "$good" "$run" -spawner=fork -n 4 "$place"
job "gasnet_exit of all" 5 'exit codes: 5' aprun -n 4 -N 2 "$place" --end=exit:5
job "a code from main" 6 'exit codes: 6' aprun -n 4 -N 2 "$place" --end=return:6
job "gasnet_exit of one, others compute" 7 'exit codes: 7' aprun -n 4 -N 2 "$place" --end=one:7
job "gasnet_exit of one, others poll" 8 'Exited with exit code 8' srun -n 4 -N 2 "$place" --end=poll:8
job "a rank kills itself" 137 'was killed by signal 9' aprun -n 4 -N 2 "$place" --end=kill
job "a rank aborts" 137 'was killed by signal 6' aprun -n 4 -N 2 "$place" --end=abort
job "a rank stops while others exit" 137 'was killed by signal 9' env GASNET_EXITTIMEOUT=1 aprun -n 4 -N 2 "$place" \
    --end=stop
exits 'exit codes: ' aprun -n 4 -N 2
job "hosts that are found otherwise" 1 'only conduit is possible' env GASNET_HOST_DETECT=hostname aprun -n 2 "$place"
job "no library" 1 'cannot open the PMI library of Cray' env GASNET_GNI_PMI_LIBRARY=/nowhere aprun -n 2 "$place"
finish
