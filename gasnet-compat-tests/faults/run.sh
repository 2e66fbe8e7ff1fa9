#!/bin/sh
# Cases that must fail cleanly, or survive a hostile environment, and that compat_tests.py cannot
# express. Environment: PREFIX, FLAVOUR (release|debug), CONDUIT, MODES, OUT (scratch folder),
# SUPERNODE_MAXSIZE, QUICK, CC, CXX.
# Prints PASS, FAIL and SKIP lines. ONLY=pattern runs the cases whose name matches.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
: "${PREFIX:?the prefix of an installed libgasnet}"
if [ -z "${OUT:-}" ]; then
    OUT=$(mktemp -d /tmp/gasnet-faults.XXXXXX)
    trap 'rm -rf "$OUT"' EXIT
fi
: "${CONDUIT:=smp}" "${FLAVOUR:=release}" "${MODES:=par}" "${SUPERNODE_MAXSIZE:=}" "${ONLY:=*}"
case " $MODES " in *" par "*) mode=par ;; *) mode=${MODES%% *} ;; esac
[ -z "$SUPERNODE_MAXSIZE" ] || export GASNET_SUPERNODE_MAXSIZE="$SUPERNODE_MAXSIZE"
chmod 755 "$OUT"
failed=0

# ---- building ----

cat >"$OUT/build.mk" <<EOF
include $PREFIX/include/$CONDUIT-conduit/$CONDUIT-$mode.mak
C := \$(GASNET_CC) \$(GASNET_CPPFLAGS) \$(GASNET_CFLAGS) -Wall -Wextra
CXX := \$(GASNET_CXX) \$(GASNET_CXXCPPFLAGS) \$(GASNET_CXXFLAGS) -Wall -Wextra
$OUT/bad: $here/bad.c
	\$(C) -o \$@ \$< \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$OUT/bad_vis: $here/bad_vis.c
	\$(C) -o \$@ \$< \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$OUT/bad_mk: $here/bad_mk.c
	\$(C) -I$here/../common -o \$@ \$< \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$OUT/throws: $here/throws.cc
	\$(CXX) -o \$@ \$< \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$OUT/two_units: $here/two_units_main.c $here/two_units.cc
	\$(C) -c -o $OUT/main.o $here/two_units_main.c
	\$(CXX) -c -o $OUT/unit.o $here/two_units.cc
	\$(CXX) -o \$@ $OUT/main.o $OUT/unit.o \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
$OUT/plugin_host: $here/plugin_host.c $here/plugin.c
	\$(C) -fPIC -shared -o $OUT/plugin.so $here/plugin.c \$(GASNET_LDFLAGS) \$(GASNET_LIBS)
	cc -o \$@ $here/plugin_host.c -ldl
EOF
for program in bad bad_vis bad_mk throws two_units plugin_host; do
    if ! make -s -f "$OUT/build.mk" "$OUT/$program" >"$OUT/log" 2>&1; then
        echo "FAIL faults/$program does not compile"
        cat "$OUT/log"
        exit 1
    fi
done
bad=$OUT/bad

# ---- judging ----

verdict() { # name, problem (empty: none)
    if [ -z "$2" ]; then
        echo "PASS faults/$1"
    else
        echo "FAIL faults/$1: $2"
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
skip() { echo "SKIP faults/$1 $2"; }
# So that timeout and env can be combined with functions: a small script.
cat >"$OUT/job" <<'EOF'
#!/bin/sh
GASNET_PSHM_NODES=$1; export GASNET_PSHM_NODES; shift; exec "$@"
EOF
chmod 755 "$OUT/job"
run=$OUT/job

# ---- programs ----

expect fine 0 '^fine: 4 ranks' "$run" 4 "$bad"
expect two-units 0 '' "$run" 2 "$OUT/two_units"
expect plugin 0 'fine: 2 ranks' "$run" 2 "$OUT/plugin_host" "$OUT/plugin.so"
expect throw-from-request bad 'the_throwing_handler' "$run" 3 "$OUT/throws"
expect throw-from-reply bad 'the_throwing_handler' "$run" 3 "$OUT/throws" reply
for what in abort abort-in-handler segv-in-handler; do expect $what bad '' "$run" 3 "$bad" $what; done
expect exit-in-handler 5 '' "$run" 3 "$bad" exit-in-handler
for what in barrier blockuntil flood; do
    expect kill-in-$what bad 'rank 2([^0-9]|$)' "$run" 3 "$bad" kill-in-$what
done
expect prepared-offset bad 'GEX_FLAG_SELF_SEG_OFFSET' "$run" 2 "$bad" prepared-offset
for what in rank-am rank-put; do expect $what bad "rank [0-9]+ is not in" "$run" 2 "$bad" $what; done
expect endpoint-am bad 'endpoint 9, which does not exist' "$run" 2 "$bad" endpoint-am
expect endpoint-none bad 'gex_TM_Pair was given GEX_EP_INVALID' "$run" 2 "$bad" endpoint-none
if [ "$FLAVOUR" = debug ]; then
    expect atomic-bits-of-float bad 'GEX_DT_FLT' "$run" 2 "$bad" atomic-bits-of-float
    expect handler-index bad '250' "$run" 2 "$bad" handler-index
    for what in address-put address-get address-span; do expect $what bad 'segment' "$run" 2 "$bad" $what; done
    expect two-places bad 'exclude' "$run" 2 "$bad" two-places
    for what in not-bound offset-beyond; do expect $what bad 'promises' "$run" 2 "$bad" $what; done
    expect too-long bad 'payload|bytes' "$run" 2 "$bad" too-long
    for what in poll-in-handler request-in-handler; do expect $what bad 'handler' "$run" 2 "$bad" $what; done
    expect two-replies bad 'repl' "$run" 2 "$bad" two-replies
    for what in not-held in-handler in-reply destroyed destroyed-twice twice try-twice order poll; do
        expect lock-$what bad 'handler-safe lock' "$run" 2 "$bad" lock-$what
    done
    expect atomic-type bad 'GEX_DT_U64' "$run" 2 "$bad" atomic-type
    for what in operation two-operations; do expect atomic-$what bad 'operation' "$run" 2 "$bad" atomic-$what; done
    expect atomic-no-result bad 'result_p' "$run" 2 "$bad" atomic-no-result
    for what in rank jobrank; do expect atomic-$what bad 'rank [0-9]+ is not in' "$run" 2 "$bad" atomic-$what; done
    expect atomic-not-mine bad 'localit' "$run" 2 "$bad" atomic-not-mine
    expect atomic-in-handler bad 'on_atomic' "$run" 2 "$bad" atomic-in-handler
    expect atomic-destroyed bad 'destroyed' "$run" 2 "$bad" atomic-destroyed
    expect atomic-no-domain bad 'GEX_AD_INVALID' "$run" 2 "$bad" atomic-no-domain
fi
expect atomic-outside bad 'segment' "$run" 2 "$bad" atomic-outside
expect atomic-misaligned bad 'aligned' "$run" 2 "$bad" atomic-misaligned
expect atomic-two-types bad 'dt' "$run" 2 "$bad" atomic-two-types
expect atomic-pair bad 'TM-pair' "$run" 2 "$bad" atomic-pair
if [ "$FLAVOUR" = debug ]; then
    for what in length indexed-length; do expect vis-$what bad 'the same' "$run" 2 "$OUT/bad_vis" $what; done
    for what in null-list null-local; do expect vis-$what bad 'null' "$run" 2 "$OUT/bad_vis" $what; done
    expect vis-twice bad 'destination twice' "$run" 2 "$OUT/bad_vis" twice
    expect vis-rank bad 'rank' "$run" 2 "$OUT/bad_vis" rank
    for what in in-get in-immediate; do expect vis-$what bad 'PeerCompletion' "$run" 2 "$OUT/bad_vis" $what; done
fi
for what in outside outside-strided before-strided; do
    expect vis-$what bad 'segment' "$run" 2 "$OUT/bad_vis" $what
done
expect vis-too-many bad 'more bytes' "$run" 2 "$OUT/bad_vis" too-many
for what in payload handler; do expect vis-$what bad 'PeerCompletion' "$run" 2 "$OUT/bad_vis" $what; done
expect vis-unregistered bad '201' "$run" 2 "$OUT/bad_vis" unregistered
# ---- device memory: stand-ins for the vendors' libraries ----

if ! "$here/../../emulators/devices/build.sh" "$OUT/devices" >"$OUT/log" 2>&1; then
    echo "FAIL faults/devices: the stand-ins do not compile"
    cat "$OUT/log"
    exit 1
fi
mk() { # NAME PATTERN
    expect "mk-$1" bad "$2" env LD_LIBRARY_PATH="$OUT/devices" "$run" 2 "$OUT/bad_mk" "$1"
}
expect mk-fine 0 '^fine: 2' env LD_LIBRARY_PATH="$OUT/devices" "$run" 2 "$OUT/bad_mk"
for what in local-host local-end medium-host; do mk $what 'local range.*CUDA device 0'; done
for what in remote-end own-end; do mk $what 'remote range.*segment'; done
mk collective 'collectives move host memory'
mk scratch 'NO_SCRATCH'
for what in atomic atomic-own; do mk $what 'remote atomics work on host memory'; done
mk kind-in-use 'still exists'
mk kind-invalid 'GEX_MK_INVALID'
mk kind-twice 'not a memory kind'
for what in copy-here copy-there sync-here; do
    mk $what 'cannot copy.*CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal'
done
mk freed 'cannot copy.*CUDA_ERROR_INVALID_VALUE \(invalid argument'
mk touch 'SIGSEGV|signal 11|Segmentation'
[ "$FLAVOUR" != debug ] || mk handler 'inside AM handler 200'

expect segment-huge bad 'segment|bytes' "$run" 2 "$bad" segment-huge
expect segment-odd 0 '^fine: 2' "$run" 2 "$bad" segment-odd
expect segment-zero bad 'page|segment' "$run" 2 "$bad" segment-zero
expect segment-max 0 '^fine: 2' "$run" 2 "$bad" segment-max

# ---- surroundings ----

mkdir -p "$OUT/gasnet-comm-x (deleted)"
cp "$bad" "$OUT/gasnet-comm-x (deleted)/bad"
expect path-like-ours 0 '^fine: 2' "$run" 2 "$OUT/gasnet-comm-x (deleted)/bad"
expect file-size-limit bad 'ulimit -f' sh -c 'ulimit -f 16; exec "$@"' sh "$run" 2 "$bad"

# ---- environment ----

for value in 0 -1 abc 99999999 1.5 ' ' 4x; do
    expect "GASNET_PSHM_NODES=$value" bad GASNET_PSHM_NODES "$run" "$value" "$bad"
done
for setting in GASNET_MAX_SEGSIZE=garbage GASNET_MAX_SEGSIZE=-5 GASNET_MAX_SEGSIZE=99999T GASNET_MAX_SEGSIZE=0.85/Q \
    GASNET_MAX_SEGSIZE=0 \
    GASNET_PSHM_NETWORK_DEPTH=0 GASNET_PSHM_NETWORK_DEPTH=x GASNET_PSHM_NETWORK_DEPTH=999999999999999999999 \
    GASNET_PSHM_RING_SIZE=1 GASNET_PSHM_RING_SIZE=lots GASNET_EXITTIMEOUT=soon GASNET_EXITTIMEOUT=-1 \
    GASNET_BARRIER=NONE \
    GASNET_WAITMODE=fast GASNET_SMP_SPAWNER=pigeon GASNET_SUPERNODE_MAXSIZE=-2 GASNET_BACKTRACE=maybe \
    GASNET_TMPDIR=/nonexistent; do
    expect "$setting" handled "${setting%%=*}" env "$setting" "$run" 2 "$bad"
done

# ---- limits of the process ----

expect limit-address-space handled 'memory|address space|map' sh -c 'ulimit -v 600000; exec "$@"' sh "$run" 4 "$bad"
expect limit-tiny-address-space handled 'memory|address space|map|thread' sh -c 'ulimit -v 60000; exec "$@"' sh "$run" \
    4 "$bad"
expect limit-descriptors handled 'descriptor|open files|EMFILE|RLIMIT_NOFILE' sh -c 'ulimit -n 12; exec "$@"' \
    sh "$run" 8 "$bad"
expect limit-locked-memory 0 '^fine: 4' sh -c 'ulimit -l 0; exec "$@"' sh "$run" 4 "$bad"
expect limit-file-size handled 'file size|memory|RLIMIT_FSIZE|ulimit' sh -c 'ulimit -f 0; exec "$@"' sh "$run" 2 "$bad"
expect closed-descriptors 0 '' sh -c 'exec "$@" <&- ' sh "$run" 2 "$bad"
expect closed-stderr 0 '^fine' sh -c 'exec "$@" 2>&-' sh "$run" 2 "$bad"

# ---- surroundings that only root can prepare ----

if [ "$(id -u)" -ne 0 ]; then
    skip surroundings "needs root"
else
    expect unprivileged 0 '^fine: 4' setpriv --reuid 65534 --regid 65534 --clear-groups "$run" 4 "$bad"
    expect no-capabilities 0 '^fine: 4' setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$run" 4 "$bad"
    expect limit-processes bad 'process|fork' prlimit --nproc=3 setpriv \
        --reuid 65533 --regid 65533 --clear-groups "$run" 8 "$bad"
    if unshare -m true 2>/dev/null; then
        for options in size=4k size=64m size=64m,ro size=4k,mode=000; do
            expect "dev-shm-$options" 0 '^fine: 4' unshare \
                -m sh -c 'mount -t tmpfs -o "$1" tmpfs /dev/shm || exit 90; shift; exec "$@"' sh \
                "$options" setpriv --reuid 65534 --regid 65534 --clear-groups "$run" 4 "$bad"
        done
        expect no-dev-shm 0 '^fine: 4' unshare \
            -m sh -c 'mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 || exit 90; exec "$@"' sh "$run" \
            4 "$bad"
        expect no-tmp 0 '^fine: 4' unshare \
            -m sh -c 'mkdir -p "$1" && cp "$2" "$1/bad" && mount --bind "$1" /mnt && mount -t tmpfs -o ro tmpfs /tmp || exit 90
            GASNET_PSHM_NODES=4 exec /mnt/bad' sh "$OUT/mnt" "$bad"
        expect no-proc handled '/proc' unshare -m sh -c 'mount -t tmpfs tmpfs /proc || exit 90; exec "$@"' sh "$run" \
            2 "$bad"
    else
        skip mount-namespaces "unshare is not permitted here"
    fi
fi

# ---- the shared library, opened by another language ----

shared() {
    for file in "$PREFIX/lib/gasnet-shared/libgasnet-$CONDUIT-$1.so" "$PREFIX/lib/libgasnet-$CONDUIT-$1.so"; do
        [ -e "$file" ] && echo "$file" && return
    done
}
python=$(command -v python3 || true)
if [ -z "$python" ] || [ -z "$(shared "$mode")" ]; then
    skip dlopen "needs python3 and the shared library"
else
    expect dlopen 0 'initialised 0 0' "$run" 1 "$python" "$here/load.py" "$(shared "$mode")"
    other=seq
    [ "$mode" != seq ] || other=par
    if [ -z "$(shared "$other")" ]; then
        skip two-libraries "only one thread mode is installed"
    else
        expect two-libraries bad 'two|second|another|already' "$run" 1 "$python" "$here/load.py" "$(shared "$mode")" \
            "$(shared "$other")"
    fi
fi
exit $failed
