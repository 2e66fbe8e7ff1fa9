# Sourced by scripts whose cases need no more than a status and a line of output. Before: $family,
# the word in front of each name, and $here, the folder of the sources. Environment: PREFIX, FLAVOUR
# (release|debug), CONDUIT, MODES, OUT (scratch folder), SUPERNODE_MAXSIZE. Prints PASS, FAIL and
# SKIP lines; $failed becomes 1 when one fails. ONLY=pattern runs the cases whose name matches.
# shellcheck shell=sh disable=SC2034 # used by the scripts
set -u
: "${PREFIX:?the prefix of an installed libgasnet}" "${here:?}" "${family:?}"
if [ -z "${OUT:-}" ]; then
    OUT=$(mktemp -d /tmp/gasnet-expect.XXXXXX)
    trap 'rm -rf "$OUT"' EXIT
fi
: "${CONDUIT:=smp}" "${FLAVOUR:=release}" "${MODES:=par}" "${SUPERNODE_MAXSIZE:=}" "${ONLY:=*}"
case " $MODES " in *" par "*) mode=par ;; *) mode=${MODES%% *} ;; esac
[ -z "$SUPERNODE_MAXSIZE" ] || export GASNET_SUPERNODE_MAXSIZE="$SUPERNODE_MAXSIZE"
chmod 755 "$OUT"
failed=0

# build RULES PROGRAM...: makes the programs in $OUT. RULES use $(C), $(CXX) and $(LINK).
build() {
    cat >"$OUT/build.mk" <<EOF
include $PREFIX/include/$CONDUIT-conduit/$CONDUIT-$mode.mak
C := \$(GASNET_CC) \$(GASNET_CPPFLAGS) \$(GASNET_CFLAGS) -Wall -Wextra
CXX := \$(GASNET_CXX) \$(GASNET_CXXCPPFLAGS) \$(GASNET_CXXFLAGS) -Wall -Wextra
LINK := \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$1
EOF
    shift
    for program; do
        if ! make -s -f "$OUT/build.mk" "$OUT/$program" >"$OUT/log" 2>&1; then
            echo "FAIL $family/$program does not compile"
            cat "$OUT/log"
            exit 1
        fi
    done
}

verdict() { # name, problem (empty: none)
    if [ -z "$2" ]; then
        echo "PASS $family/$1"
    else
        echo "FAIL $family/$1: $2"
        sed 's/^/    | /' "$OUT/output" | head -n 15
        failed=1
    fi
}

# expect NAME STATUS PATTERN COMMAND...: runs the command on its own, at most 60 s. STATUS is a
# number, "bad" (not 0) or "handled": either it works and prints "fine", or it ends with a status
# other than 0 and a line that matches. The output must have a line that matches PATTERN (extended,
# any case; empty: none needed). No rank may be left over, or hang.
expect() {
    name=$1 wanted=$2 pattern=$3
    shift 3
    # shellcheck disable=SC2254 # ONLY is a pattern
    case $name in $ONLY) ;; *) return ;; esac
    timeout -k 5 60 "$@" >"$OUT/output" 2>&1 </dev/null
    status=$?
    problem=
    matched=no
    if [ -z "$pattern" ] || grep -Eiq -- "$pattern" "$OUT/output"; then matched=yes; fi
    case $status in
    124 | 137) [ "$status:$wanted" = 137:bad ] || problem="it hangs or was killed (status $status)" ;;
    99) problem="a rank outlived the job" ;;
    esac
    if [ -z "$problem" ]; then
        case $wanted in
        bad) [ $status -ne 0 ] || problem="status 0" ;;
        handled)
            if [ $status -eq 0 ]; then
                matched=yes
                grep -q '^fine' "$OUT/output" || problem="status 0 without a result"
            fi ;;
        *) [ $status -eq "$wanted" ] || problem="status $status, expected $wanted" ;;
        esac
    fi
    [ -n "$problem" ] || [ $matched = yes ] || problem="status $status; no line matches: $pattern"
    grep -q 'still alive' "$OUT/output" && problem="a rank outlived the job"
    grep -q 'panicked at' "$OUT/output" && problem="a panic instead of a message"
    if [ -z "$problem" ]; then
        tries=0
        while pgrep -f "^$OUT/" >/dev/null 2>&1; do
            tries=$((tries + 1))
            [ $tries -lt 50 ] || { problem="processes are left: $(pgrep -f "^$OUT/" | tr '\n' ' ')"; break; }
            sleep 0.1
        done
    fi
    verdict "$name" "$problem"
}
skip() { echo "SKIP $family/$1 $2"; }
# So that timeout and env can be combined with functions: a small script.
cat >"$OUT/job" <<'EOF'
#!/bin/sh
GASNET_PSHM_NODES=$1; export GASNET_PSHM_NODES; shift; exec "$@"
EOF
chmod 755 "$OUT/job"
run=$OUT/job
