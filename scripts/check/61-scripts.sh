# The families of gasnet-compat-tests that have a script of their own: how jobs start, end, fail,
# report and are misused. The same part as in step `c`.
. "$(dirname -- "$0")/lib.sh"
compat_tests --only-scripts || failures=1
finish
