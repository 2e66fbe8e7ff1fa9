#!/bin/sh
# run-tests.sh TREE CONDUITS TESTS NP: runs the test programs that are built in the conduits'
# folders of a build tree, with NP processes. One line per program; exit status 1 when one fails, 0
# else, also when none is built.
set -u
tree=$1 conduits=$2 tests=$3 np=$4
ran=0 failed=0
for conduit in $conduits; do
    for test in $tests; do
        program=$tree/$conduit-conduit/$test
        [ -x "$program" ] || continue
        ran=$((ran + 1))
        # No job: one process.
        case $test in
        testtools*) set -- "$program" ;;
        *) set -- "$tree/bin/gasnetrun_$conduit" -n "$np" "$program" ;;
        esac
        if text=$("$@" 2>&1) && printf '%s\n' "$text" | grep -q '[Dd]one\.$'; then
            echo "PASS $conduit-conduit/$test"
        else
            failed=$((failed + 1))
            echo "FAIL $conduit-conduit/$test"
            printf '%s\n' "$text" | tail -n 25
        fi
    done
done
[ "$ran" -gt 0 ] || echo "no tests are built: make tests-seq, tests-par or tests-parsync builds them"
[ "$failed" -eq 0 ]
