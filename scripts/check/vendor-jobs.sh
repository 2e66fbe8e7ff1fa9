# For steps whose jobs the launchers of a vendor start on simulated nodes (emulators/pmi): a step
# sets STEP, its name, CONDUIT and EMULATOR, and sources this file.
: "${STEP:?}" "${CONDUIT:?}" "${EMULATOR:?}"
. "$(dirname -- "$0")/lib.sh"
scratch
EMULATORS=$BUILD/emulators
export EMULATORS
# launch_place compares names of hosts, which the emulator's nodes have for root only.
if [ "$(id -u)" != 0 ]; then
    skip "$STEP: not root"
    finish
fi
for name in "$EMULATOR" pmi; do
    attempt "$STEP: build the emulator $name" env CARGO_TARGET_DIR="$BUILD/emulators/target" \
        "$ROOT/emulators/$name/build.sh" "$EMULATORS/$name" || finish
done
# place, place-exit: the programs.
place() {
    PKG_CONFIG_PATH=$STAGE_RELEASE/lib/pkgconfig
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046 # several words
    "$CC" -Wall -Wextra -Werror $(pkg-config --cflags "gasnet-$CONDUIT-seq") -o "$WORK/place" \
        "$ROOT/gasnet-compat-tests/launch/launch_place.c" $(pkg-config --libs "gasnet-$CONDUIT-seq") || return 1
    # shellcheck disable=SC2046 # several words
    "$CC" -Wall -Wextra -Werror $(pkg-config --cflags "gasnet-$CONDUIT-par") -o "$WORK/place-exit" \
        "$ROOT/gasnet-compat-tests/exit/exit_cases.c" $(pkg-config --libs "gasnet-$CONDUIT-par")
}
attempt "$STEP: compile programs" place || finish
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
    timeout 120 "$ROOT/scripts/with-emulator" "$EMULATOR" --faults yield=10 "$@" >"$WORK/out" 2>&1 || _got=$?
    _left=$(left)
    if [ "$_got" = "$_code" ] && [ -z "$_left" ] && { [ -z "$_text" ] || grep -q -- "$_text" "$WORK/out"; }; then
        pass "$STEP: $_name"
    else
        fail "$STEP: $_name: exit status $_got instead of $_code, or no '$_text', or left: $_left"
        tail -n 25 "$WORK/out" | sed 's/^/    | /'
    fi
}

# exits TEXT LAUNCHER...: cases of the exit family: with a code of the program's, which TEXT
# precedes in the output (if it is not empty), and such as launchers call a failure.
exits() {
    _before=$1
    shift
    while read -r _case _code; do
        job "exit: $_case" "$_code" "${_before:+$_before$_code}" "$@" "$WORK/place-exit" "$_case" </dev/null
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
}
