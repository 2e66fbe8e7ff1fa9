# Tests in Python of gasnet-compat-tests: how jobs start, end, fail, report and are misused. The
# same part as in step `c`.
. "$(dirname -- "$0")/lib.sh"
# shellcheck disable=SC2046 # several files
compat_tests --dist loadgroup -m "not hosts and not vendors" \
    $(cd "$ROOT/gasnet-compat-tests" && ls -- */test_*.py) || failures=1
finish
