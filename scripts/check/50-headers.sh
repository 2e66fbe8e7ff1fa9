# Every public header in every language, compiler and thread mode, from the installation.
. "$(dirname -- "$0")/lib.sh"
text=$(timeout 1800 sh "$ROOT/gasnet-compat-tests/headers/run.sh" "$STAGE_RELEASE/include" 2>&1)
status=$?
printf '%s\n' "$text" | grep -E '^(PASS|FAIL|SKIP) '
if [ $status -ne 0 ]; then
    failures=1
    printf '%s\n' "$text" | grep -q '^FAIL ' || fail "headers exit status $status"
    printf '%s\n' "$text" | grep -vE '^(PASS|SKIP) ' | tail -n 60 | sed 's/^/    | /'
fi
finish
