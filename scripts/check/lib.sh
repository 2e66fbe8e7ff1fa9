# Sourced by the steps of scripts/check.sh, which exports ROOT, BUILD, CC, CXX, SCOPE,
# STAGE_RELEASE, STAGE_DEBUG, SEED and FULL.
set -u
: "${ROOT:?run this through scripts/check.sh}"
. "$ROOT/scripts/pytest.sh"

failures=0
pass() { echo "PASS $*"; }
skip() { echo "SKIP $*"; }
fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# attempt NAME COMMAND...: PASS when the command succeeds; otherwise FAIL and the end of its output.
attempt() {
    _name=$1
    shift
    if _text=$("$@" 2>&1); then
        pass "$_name"
    else
        fail "$_name exit status $?"
        printf '%s\n' "$_text" | tail -n "${SHOW_LINES:-25}" | sed 's/^/    | /'
        return 1
    fi
}

# same NAME A B: passes when the two are equal.
same() { if [ "$2" = "$3" ]; then pass "$1"; else fail "$1: '$2' instead of '$3'"; fi; }
# good NAME TEXT: passes when TEXT, a list of complaints, is empty.
good() { if [ -z "$2" ]; then pass "$1"; else fail "$1:$2"; fi; }

# has_tool COMMAND NAME: whether it is installed. If not, as with SETUP=0, what NAME says is a skip.
has_tool() {
    command -v "$1" >/dev/null 2>&1 || { skip "$2: $1 is not installed (make setup)"; return 1; }
}

# in_check_all STEP: leaves a step, or the rest of it, out of a quick check; in_full_check: and out
# of a check-all without FULL.
in_check_all() {
    [ "$SCOPE" = all ] || { skip "$1: in make check-all"; finish; }
}
in_full_check() {
    [ "$SCOPE$FULL" = all1 ] || { skip "$1: in FULL=1 make check-all"; finish; }
}

# conduits_of release|debug: the conduits that step build installs in this flavour. The debug
# flavour checks calls of clients, so a quick check has few networks in it.
conduits_of() {
    case $SCOPE$1 in
    quickdebug) echo "smp ibv udp sock" ;;
    *) "$ROOT/scripts/build/conduits.sh" --all ;;
    esac
}

# A scratch folder that other users can read, removed at the end.
scratch() {
    WORK=$(mktemp -d /tmp/gasnet-check-XXXXXX)
    chmod 755 "$WORK"
    trap 'rm -rf "$WORK"' EXIT
    trap 'exit 1' HUP INT TERM
}

# compat_tests FOLDER|OPTION...: gasnet-compat-tests over everything that was built, as lines of a
# step; a quick check takes a part of the matrix, and check-all a fourth of the C programs' cases
# without FULL. Time limits are three times those of the programs: a busy machine must not fail.
compat_tests() {
    _slice='' _part=''
    case $SCOPE$FULL in quick*) _slice=$SEED ;; all) _part=$SEED ;; esac
    tests --lines --slice "$_slice" --part "$_part" --timeout-factor 3 -n "$(nproc)" "$@"
}

# suite EMULATOR: options and sources of its conformance program.
suite() {
    echo "-I$ROOT/emulators/common/tests" "$ROOT/emulators/common/tests"/*.c "$ROOT/emulators/$1/tests"/*.c
}

# conformance_program EMULATOR FILE FLAGS...: compiles its conformance program.
conformance_program() {
    _emulator=$1 _file=$2
    shift 2
    # shellcheck disable=SC2046 # several sources
    attempt "compile the conformance program of $_emulator" "$CC" -std=gnu11 -O1 -Wall -Wextra -Werror \
        -o "$_file" $(suite "$_emulator") "$@"
}

finish() { exit $((failures > 0)); }
