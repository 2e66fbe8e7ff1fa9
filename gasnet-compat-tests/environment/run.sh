#!/bin/sh
# Jobs in a bad environment, which must work or end with a message: invalid variables, limits,
# file systems, plugins, the shared library opened by another language, a C++ unit under a C main.
# See common/expect.sh.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
family=environment
. "$here/../common/expect.sh"

build "$OUT/fine: $here/fine.c
	\$(C) -o \$@ \$< \$(LINK)
$OUT/two_units: $here/two_units_main.c $here/two_units.cc
	\$(C) -c -o $OUT/main.o $here/two_units_main.c
	\$(CXX) -c -o $OUT/unit.o $here/two_units.cc
	\$(CXX) -o \$@ $OUT/main.o $OUT/unit.o \$(LINK)
$OUT/plugin_host: $here/plugin_host.c $here/plugin.c
	\$(C) -fPIC -shared -o $OUT/plugin.so $here/plugin.c \$(LINK)
	cc -o \$@ $here/plugin_host.c -ldl" fine two_units plugin_host
fine=$OUT/fine

expect fine 0 '^fine: 4 ranks' "$run" 4 "$fine"
expect two-units 0 '' "$run" 2 "$OUT/two_units"
expect plugin 0 'fine: 2 ranks' "$run" 2 "$OUT/plugin_host" "$OUT/plugin.so"

# ---- surroundings ----

mkdir -p "$OUT/gasnet-comm-x (deleted)"
cp "$fine" "$OUT/gasnet-comm-x (deleted)/fine"
expect path-like-ours 0 '^fine: 2' "$run" 2 "$OUT/gasnet-comm-x (deleted)/fine"
expect file-size-limit bad 'ulimit -f' sh -c 'ulimit -f 16; exec "$@"' sh "$run" 2 "$fine"

# ---- environment ----

for value in 0 -1 abc 99999999 1.5 ' ' 4x; do
    expect "GASNET_PSHM_NODES=$value" bad GASNET_PSHM_NODES "$run" "$value" "$fine"
done
for setting in GASNET_MAX_SEGSIZE=garbage GASNET_MAX_SEGSIZE=-5 GASNET_MAX_SEGSIZE=99999T GASNET_MAX_SEGSIZE=0.85/Q \
    GASNET_MAX_SEGSIZE=0 \
    GASNET_PSHM_NETWORK_DEPTH=0 GASNET_PSHM_NETWORK_DEPTH=x GASNET_PSHM_NETWORK_DEPTH=999999999999999999999 \
    GASNET_PSHM_RING_SIZE=1 GASNET_PSHM_RING_SIZE=lots GASNET_EXITTIMEOUT=soon GASNET_EXITTIMEOUT=-1 \
    GASNET_BARRIER=NONE \
    GASNET_WAITMODE=fast GASNET_SMP_SPAWNER=pigeon GASNET_SUPERNODE_MAXSIZE=-2 GASNET_BACKTRACE=maybe \
    GASNET_TMPDIR=/nonexistent; do
    expect "$setting" handled "${setting%%=*}" env "$setting" "$run" 2 "$fine"
done

# ---- limits of the process ----

expect limit-address-space handled 'memory|address space|map' sh -c 'ulimit -v 600000; exec "$@"' sh "$run" 4 "$fine"
expect limit-tiny-address-space handled 'memory|address space|map|thread' sh -c 'ulimit -v 60000; exec "$@"' sh "$run" \
    4 "$fine"
expect limit-descriptors handled 'descriptor|open files|EMFILE|RLIMIT_NOFILE' sh -c 'ulimit -n 12; exec "$@"' \
    sh "$run" 8 "$fine"
expect limit-locked-memory 0 '^fine: 4' sh -c 'ulimit -l 0; exec "$@"' sh "$run" 4 "$fine"
expect limit-file-size handled 'file size|memory|RLIMIT_FSIZE|ulimit' sh -c 'ulimit -f 0; exec "$@"' sh "$run" 2 "$fine"
expect closed-descriptors 0 '' sh -c 'exec "$@" <&- ' sh "$run" 2 "$fine"
expect closed-stderr 0 '^fine' sh -c 'exec "$@" 2>&-' sh "$run" 2 "$fine"

# ---- surroundings that only root can prepare ----

if [ "$(id -u)" -ne 0 ]; then
    skip surroundings "needs root"
else
    expect unprivileged 0 '^fine: 4' setpriv --reuid 65534 --regid 65534 --clear-groups "$run" 4 "$fine"
    expect no-capabilities 0 '^fine: 4' setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$run" 4 "$fine"
    expect limit-processes bad 'process|fork' prlimit --nproc=3 setpriv \
        --reuid 65533 --regid 65533 --clear-groups "$run" 8 "$fine"
    if unshare -m true 2>/dev/null; then
        for options in size=4k size=64m size=64m,ro size=4k,mode=000; do
            expect "dev-shm-$options" 0 '^fine: 4' unshare \
                -m sh -c 'mount -t tmpfs -o "$1" tmpfs /dev/shm || exit 90; shift; exec "$@"' sh \
                "$options" setpriv --reuid 65534 --regid 65534 --clear-groups "$run" 4 "$fine"
        done
        expect no-dev-shm 0 '^fine: 4' unshare \
            -m sh -c 'mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 || exit 90; exec "$@"' sh "$run" \
            4 "$fine"
        expect no-tmp 0 '^fine: 4' unshare \
            -m sh -c 'mkdir -p "$1" && cp "$2" "$1/fine" && mount --bind "$1" /mnt && mount -t tmpfs -o ro tmpfs /tmp || exit 90
            GASNET_PSHM_NODES=4 exec /mnt/fine' sh "$OUT/mnt" "$fine"
        expect no-proc handled '/proc' unshare -m sh -c 'mount -t tmpfs tmpfs /proc || exit 90; exec "$@"' sh "$run" \
            2 "$fine"
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
