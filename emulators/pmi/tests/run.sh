#!/bin/sh
# run.sh FOLDER: tests the emulator of Cray's PMI that build.sh has built into FOLDER. Prints what
# fails; the exit status is 0 if nothing does. CC: the compiler.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
folder=$(CDPATH='' cd -- "$1" && pwd)
work=$(mktemp -d /tmp/emu-pmi-test-XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
fail() {
    echo "$*"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# answers WORDS TEST OPTION...: the answers of a test, all of which must be yes.
answers() {
    _words=$1 _test=$2
    shift 2
    EMU_PMI=$_words timeout 120 "$@" "$work/pmi" "$_test" >"$work/out" 2>"$work/errors" ||
        fail "[$_words] $* $_test: exit status $?"
    diff "$here/answers.txt" "$work/out" >"$work/diff" || fail "[$_words] $* $_test: other answers"
}

# ends STATUS TEXT OPTION...: a job ends with this status, and a message.
ends() {
    _status=$1 _text=$2 _got=0
    shift 2
    timeout 60 "$@" >"$work/out" 2>&1 || _got=$?
    if [ "$_got" != "$_status" ] || ! { echo 'any'; cat "$work/out"; } | grep -q "${_text:-any}"; then
        fail "$*: exit status $_got instead of $_status, or no message '$_text'"
    fi
}

# is_gone: whether no process of the tests is left. Its folder is in their command lines.
is_gone() {
    _tries=0
    while grep -qs "$work/pmi" /proc/[0-9]*/cmdline; do
        _tries=$((_tries + 1))
        [ "$_tries" -lt 100 ] || return 1
        sleep 0.05
    done
}

# killed SIGNAL WHO: the launcher, or the process that runs the job, gets a signal.
killed() {
    mkfifo "$work/fifo"
    # A shell between the launcher and the rank, which the launcher does not know.
    # shellcheck disable=SC2016 # for the other shell
    "$folder/aprun" -n 3 -N 2 sh -c '"$1" wait; :' sh "$work/pmi" >"$work/fifo" 2>/dev/null &
    _pid=$!
    exec 3<"$work/fifo"
    read -r _ <&3 && read -r _ <&3 && read -r _ <&3
    if [ "$2" = runner ]; then
        # The parent of a rank's shell, not the one that the user started.
        for _stat in /proc/[0-9]*/stat; do
            { read -r _own _ _ _parent _ <"$_stat"; } 2>/dev/null || continue
            # A process that the signal has ended may be listed still.
            [ "$_parent" != "$_pid" ] || kill "-$1" "$_own" 2>/dev/null || continue
        done
    else
        kill "-$1" "$_pid"
    fi
    wait "$_pid" 2>/dev/null && fail "a job whose $2 gets SIG$1 exits with 0"
    exec 3<&-
    rm "$work/fifo"
    is_gone || fail "a job whose $2 gets SIG$1 leaves processes"
}

# shellcheck disable=SC2086 # CC may have options
${CC:-gcc} -std=gnu11 -O1 -Wall -Wextra -Werror -I"$here/../include" -o "$work/pmi" "$here/pmi.c" -L"$folder" -lpmi
: >"$work/out"
aprun=$folder/aprun srun=$folder/srun
answers '' all "$aprun" -n 4 -N 2
answers 'seed=77' all "$aprun" -n 7 -N 3
answers '' all "$srun" -K0 -W60 -v -mblock -n 4 -N 2
answers 'colon-lists' all "$srun" -mcyclic -n 5 -N 2
answers 'lazy-fence no-dev-id' lazy "$aprun" -n 5 -N 2
ends 0 '' "$aprun" -n 2 "$work/pmi" no-pmi
ends 7 'exit codes: 7' "$aprun" -n 3 "$work/pmi" code7
ends 7 'task 2: Exited with exit code 7' "$srun" -n 3 "$work/pmi" code7
ends 137 'rank 3 on nid00101 has ended without PMI_Finalize' "$aprun" -n 4 -N 2 "$work/pmi" early
ends 1 'without PMI_Finalize' "$aprun" -n 1 "$work/pmi" early
ends 137 'rank 2 on nid00100 was killed by signal 9' "$aprun" -n 3 "$work/pmi" killed
ends 137 'because of a test' "$aprun" -n 3 "$work/pmi" abort
ends 0 'after another has finalised' "$aprun" -n 3 "$work/pmi" alone
ends 0 '' "$aprun" -n 2 "$work/pmi" orphan
# shellcheck disable=SC2016 # for the other shell
ends 137 'time to wait' "$srun" -W1 -n 2 sh -c '[ "$SLURM_PROCID" = 0 ] || exec "$0" wait' "$work/pmi"
is_gone || fail 'a job that has ended leaves processes'
killed KILL launcher
killed TERM launcher
killed KILL runner
exit $((failures > 0))
