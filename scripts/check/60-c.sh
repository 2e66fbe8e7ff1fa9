# The C and C++ programs of gasnet-compat-tests over conduits, neighbourhood sizes, thread modes and
# ranks. A quick check takes of the less common configurations a part that SEED chooses. Time limits
# are three times what the programs ask for: a busy machine is no failure.
. "$(dirname -- "$0")/lib.sh"
compat_tests --no-scripts || failures=1
finish
