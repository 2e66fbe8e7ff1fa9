#!/bin/sh
# check.sh quick|all [STEP...]: runs the steps in scripts/check/ (all, or those whose names are
# given, for example "symbols install") and counts. SEED (any word) chooses the part of the large
# matrices; FULL=1 takes all of them, and the mutants, in a check of `all`. A step prints lines
# "PASS name", "FAIL name why", "SKIP name reason"; everything else is explanation. CONTINUE=1: a
# step that has passed here before, with the very same sources, is not run again; its former output
# counts. For checks that are interrupted.
. "$(dirname -- "$0")/common.sh"

SCOPE=${1:-}
case $SCOPE in quick | all) shift ;; *) echo "check: '$SCOPE' is not known; quick and all are" >&2; exit 2 ;; esac
steps=$(cd "$ROOT/scripts/check" && for step in [0-9]*.sh; do echo "${step#*-}"; done | sed 's/\.sh$//' | tr '\n' ' ')
for step; do
    case " $steps" in *" $step "*) ;; *) echo "check: there is no step '$step'; known: $steps" >&2; exit 2 ;; esac
done
unset MAKEFLAGS MFLAGS MAKELEVEL FLAVOUR SEGMENT DESTDIR PREFIX CONDUITS MODES UNIVERSAL PROGRAMS CROSS
STAGE_RELEASE=$BUILD/stage-release
STAGE_DEBUG=$BUILD/stage-debug
SEED=${SEED:-1} FULL=${FULL:-}
# Seconds for a step: the whole matrices take two hours on two cores that do something else, too.
: "${STEP_TIMEOUT:=$([ "$SCOPE" = all ] && echo 14400 || echo 5400)}"
case $FULL in '' | 1) ;; *) echo "check: FULL is 1 or nothing" >&2; exit 2 ;; esac
export ROOT BUILD CC CXX SCOPE STAGE_RELEASE STAGE_DEBUG SEED FULL

started=$(date +%s)
log=$BUILD/check.log passed_before=$BUILD/check.passed
mkdir -p "$BUILD" "$passed_before"
: >"$log"
# Time limits put commands into process groups of their own. A mark in the environment finds the
# processes of steps when this script is ended.
lane='' CHECK_STEPS=$$-$started
export CHECK_STEPS
stop() {
    trap '' HUP INT TERM
    [ -z "$lane" ] || kill "$lane" 2>/dev/null || :
    # shellcheck disable=SC2013 # words
    for _process in $(grep -slF "CHECK_STEPS=$CHECK_STEPS" /proc/[0-9]*/environ); do
        _process=${_process#/proc/}
        kill "${_process%/environ}" 2>/dev/null || :
    done
    exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
# A tree with uncommitted changes has no name.
sources=
if [ -z "$(git -C "$ROOT" status --porcelain 2>&1)" ]; then
    sources=$(git -C "$ROOT" rev-parse 'HEAD^{tree}' 2>/dev/null) || sources=
fi

# run STEP LOG: shows and keeps the output of a step.
run() {
    step=$1 _log=$2
    script=$(echo "$ROOT"/scripts/check/[0-9]*-"$step".sh)
    echo "== $step ($(($(date +%s) - started)) s)"
    kept=$passed_before/$SCOPE$FULL-$SEED-$step printed=$BUILD/check.$step
    if [ "${CONTINUE:-}" = 1 ] && [ -n "$sources" ] && [ "$(head -n 1 "$kept" 2>/dev/null)" = "$sources" ]; then
        tail -n +2 "$kept" >>"$_log"
        echo "   passed before: $(grep -c '^PASS ' "$kept")"
        return
    fi
    rm -f "$kept"
    {
        status=0
        timeout --kill-after=30 "$STEP_TIMEOUT" sh "$script" </dev/null 2>&1 &
        wait $! || status=$?
        echo "$status" >"$printed.status"
    } | tee "$printed" &
    wait $!
    status=$(cat "$printed.status")
    cat "$printed" >>"$_log"
    if [ "$status" -ne 0 ] && ! grep -q '^FAIL ' "$printed"; then
        echo "FAIL $step exit status $status" | tee -a "$_log"
    fi
    if [ "$status" -eq 0 ] && ! grep -q '^FAIL ' "$printed"; then
        { echo "$sources"; cat "$printed"; } >"$kept"
    fi
    rm -f "$printed" "$printed.status"
    return "$status"
}

# Two lanes, because steps often wait, or have work for one core. `beside` has the steps before
# `build`, which need no library, then those that mostly wait. Its output is shown at the end.
waiting="scripts launch"
apart='' main='' beside=''
for step in $steps; do
    case " $* " in "  " | *" $step "*) ;; *) continue ;; esac
    case " $waiting " in *" $step "*) beside="$beside $step" && continue ;; esac
    case " ${steps%% build *} " in *" $step "*) apart="$apart $step" ;; *) main="$main $step" ;; esac
done
: >"$log.beside"
built=$BUILD/check.built
rm -f "$built"
beside_main() {
    for step in $apart; do run "$step" "$log.beside" || :; done
    # Without a library nothing else can be checked.
    while [ ! -e "$built" ]; do sleep 1; done
    [ "$(cat "$built")" = 0 ] || beside=''
    for step in $beside; do run "$step" "$log.beside" || :; done
}
case " $main " in
*" build "*) ;;
*)
    echo 0 >"$built"
    [ -z "$main$beside" ] || [ -e "$STAGE_RELEASE" ] ||
        echo "check: no library is built, which most of these steps need: name step build, too" >&2
    ;;
esac
if [ -n "$main" ] && [ -n "$apart$beside" ]; then
    beside_main >"$BUILD/check.beside" 2>&1 &
    lane=$!
fi
for step in $main; do
    status=0
    run "$step" "$log" || status=$?
    [ "$step" != build ] || echo "$status" >"$built"
    [ "$step" != build ] || [ "$status" -eq 0 ] || break
done
if [ -n "$lane" ]; then
    wait "$lane"
    cat "$BUILD/check.beside"
else
    beside_main
fi
cat "$log.beside" >>"$log"
rm -f "$log.beside" "$BUILD/check.beside" "$built"

passed=$(grep -c '^PASS ' "$log") || :
failed=$(grep -c '^FAIL ' "$log") || :
skipped=$(grep -c '^SKIP ' "$log") || :
echo "== summary ($(($(date +%s) - started)) s)"
grep '^SKIP ' "$log" || :
grep '^FAIL ' "$log" || :
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
