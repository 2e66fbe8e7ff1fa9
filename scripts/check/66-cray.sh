# Jobs on an emulated Cray: programs with gni that aprun and srun start on several simulated nodes
# (emulators/README.md), directly and by gasnetrun_gni, and how such jobs end.
. "$(dirname -- "$0")/lib.sh"
scratch
EMULATORS=$BUILD/emulators
export EMULATORS
# launch_place compares names of hosts, which the emulator's nodes have for root only.
if [ "$(id -u)" != 0 ]; then
    skip "cray: not root"
    finish
fi
case " $("$ROOT/scripts/build/conduits.sh" --all) " in
*" gni "*) ;;
*)
    skip "cray: there is no conduit gni"
    finish
    ;;
esac
for name in ugni pmi; do
    attempt "cray: build the emulator $name" env CARGO_TARGET_DIR="$BUILD/emulators/target" \
        "$ROOT/emulators/$name/build.sh" "$EMULATORS/$name" || finish
done
place() {
    PKG_CONFIG_PATH=$STAGE_RELEASE/lib/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046 # several words
    "$CC" -Wall -Wextra -Werror $(pkg-config --cflags gasnet-gni-seq) -o "$WORK/place" \
        "$ROOT/gasnet-compat-tests/launch/launch_place.c" $(pkg-config --libs gasnet-gni-seq) || return 1
    # shellcheck disable=SC2046 # several words
    "$CC" -Wall -Wextra -Werror $(pkg-config --cflags gasnet-gni-par) -o "$WORK/place-exit" \
        "$ROOT/gasnet-compat-tests/exit/exit_cases.c" $(pkg-config --libs gasnet-gni-par)
}
attempt "cray: compile programs" place || finish
PATH=$EMULATORS/pmi:$PATH

# left: processes of the program that are still there, after some time.
left() {
    _tries=0
    while _left=$(grep -ls "$WORK/[p]lace" /proc/[0-9]*/cmdline) && [ "$_tries" -lt 100 ]; do
        _tries=$((_tries + 1))
        sleep 0.05
    done
    echo "$_left"
}

# job NAME CODE TEXT COMMAND...: a command ends with this code and prints this, and nothing is left.
job() {
    _name=$1 _code=$2 _text=$3 _got=0
    shift 3
    timeout 120 "$ROOT/scripts/with-emulator" ugni --faults yield=10 "$@" >"$WORK/out" 2>&1 || _got=$?
    _left=$(left)
    if [ "$_got" = "$_code" ] && grep -q -- "$_text" "$WORK/out" && [ -z "$_left" ]; then
        pass "cray: $_name"
    else
        fail "cray: $_name: exit status $_got instead of $_code, or no '$_text', or left: $_left"
        tail -n 25 "$WORK/out" | sed 's/^/    | /'
    fi
}

place=$WORK/place run=$STAGE_RELEASE/bin/gasnetrun_gni
good='rank 3 of 4'
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
# Cases of the exit family: with a code of the program's, and such as aprun calls a failure.
while read -r case code; do
    job "exit: $case" "$code" "exit codes: $code" aprun -n 4 -N 2 "$WORK/place-exit" "$case" </dev/null
done <<END
collective-exit 1
collective-return 2
exit-barrier 3
exit-wait 3
exit-poll 3
exit-spin 5
early-collective 6
early-one 7
early-return-one 8
return-barrier 8
return-spin 9
handlers-collective 10
handler-remote 11
handler-loopback 12
handler-many 13
prepared-request 14
prepared-reply 15
unflushed 17
threads-collective 51
thread-one-spin 53
thread-one-poll 53
abort 137
segv 139
kill 137
kill-wait 137
kill-flood 137
END
job "hosts that are found otherwise" 1 'only conduit is possible' env GASNET_HOST_DETECT=hostname aprun -n 2 "$place"
job "no library" 1 'cannot open the PMI library of Cray' env GASNET_GNI_PMI_LIBRARY=/nowhere aprun -n 2 "$place"
finish
