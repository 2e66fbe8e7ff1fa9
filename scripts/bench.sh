#!/bin/sh
# bench.sh: builds gasnet_perf over this library, as archive and as shared library, and over the one
# installed in PEER_PREFIX, if that is set, and runs them in turns, after the machine's own limits.
# RANKS (2), RUNS (5), FIFO (real-time priority; none), CONDUIT (smp), PERF (options and tests of
# gasnet_perf). Tables on standard output.
#
# TABLE=1: archives only, a table for each conduit in CONDUIT (smp udp), with a line for each of the
# usual tests and a column for each size. COUNT=1: the same of instructions
# (programs/benches/count.py).
#
# Jobs over a network have no neighbours. PEER_RUN starts programs of the other library that its own
# gasnetrun does not start by itself: "gasnetrun_%c -spawner=ssh -n %n", with %c for the conduit and
# %n for the number of ranks.
. "$(dirname -- "$0")/common.sh"

prefix=$BUILD/bench/ours ranks=${RANKS:-2}
mode=${TABLE:+table}${COUNT:+count}
conduits=${CONDUIT:-${mode:+smp udp}}
: "${conduits:=smp}"
usual=am-short,am-ball,am-short-flood,am-medium,am-medium-ball,am-medium-flood,am-medium-biflood,am-long-ball
usual=$usual,am-long-flood,np-medium,np-medium-flood,put,get,put-nb,get-nb,put-nbi,get-nbi,put-bw,get-bw
usual=$usual,put-flood,get-flood,put-bibw,ad-fadd,ad-add,barrier,barrier-anonymous,barrier-team,broadcast,allreduce
perf="$ROOT/programs/perf/*.c"

# built PREFIX PACKAGE OUT SOURCE...: a program by a package's own flags. The run path is for shared
# libraries in folders of their own.
built() {
    _prefix=$1 _package=$2 _out=$3
    shift 3
    # shellcheck disable=SC2046 # words
    (
        PKG_CONFIG_PATH=$_prefix/lib/pkgconfig
        export PKG_CONFIG_PATH
        for source; do
            $CC -O2 -Wa,-I"$ROOT/programs" $(pkg-config --cflags "$_package") -c "$source" \
                -o "$_out.$(basename "$source" .c).o"
        done
        # Another library may be written in C++.
        $CXX "$_out".*.o -o "$_out" $(pkg-config --libs "$_package") -lm
    )
}
# started CONDUIT PREFIX WORD...: the command that starts a program on $ranks ranks.
started() {
    _conduit=$1 _prefix=$2
    shift 2
    if [ "$_prefix" != "$prefix" ] && [ -n "${PEER_RUN:-}" ]; then
        echo "$(echo "$PEER_RUN" | sed "s,%c,$_conduit,g; s,%n,$ranks,g") $*"
        return
    fi
    case $_conduit in
    smp) echo "$*" ;;
    udp) echo "$_prefix/bin/amudprun -np $ranks $*" ;;
    *) echo "$_prefix/bin/gasnetrun_$_conduit -n $ranks $*" ;;
    esac
}

make -s -C "$ROOT" install PREFIX="$prefix" CONDUITS="$conduits" MODES=par UNIVERSAL=0 DEBUG=0 SEGMENT=fast >&2
export GASNET_SPAWNFN="${GASNET_SPAWNFN:-L}"
compare="python3 -B $ROOT/programs/benches/compare.py --ranks $ranks --runs ${RUNS:-5} --fifo ${FIFO:-0}"
if [ -z "$mode" ]; then
    set -- archive shared ${PEER_PREFIX:+peer}
    $CC -O2 -I"$ROOT/programs/perf" "$ROOT/programs/benches/limits.c" "$ROOT/programs/perf/limits.c" \
        -o "$BUILD/bench/limits"
    "$BUILD/bench/limits" "$ranks"
else
    set -- ours ${PEER_PREFIX:+peer}
fi

for conduit in $conduits; do
    if [ "$conduit" != smp ]; then
        export GASNET_SUPERNODE_MAXSIZE=1
    fi
    commands=
    for name; do
        from=$prefix package=gasnet-$conduit-par program=$BUILD/bench/${mode:-perf}-$name-$conduit
        case $name in
        peer) from=$PEER_PREFIX ;;
        shared) package=$package-shared ;;
        esac
        # shellcheck disable=SC2086 # a pattern
        case $mode in
        count) built "$from" "$package" "$program" "$ROOT/programs/benches/count.c" ;;
        *) built "$from" "$package" "$program" $perf ;;
        esac
        commands="$commands
$name=$(started "$conduit" "$from" ${COUNT:+%s} "$program")"
    done
    (
        # Each line is a word.
        IFS='
'
        # shellcheck disable=SC2086
        set -- $commands
        unset IFS
        # shellcheck disable=SC2086 # words
        case $mode in
        table)
            printf '\n%s, %s ranks: µs; ours / peer\n\n' "$conduit" "$ranks"
            $compare --by-size --sizes 8:8,64:64,512:512,4k:4k,32k:32k,256k:256k "$@" \
                -- ${PERF:--p -b 7 -d 2} $usual
            ;;
        count)
            printf '\n%s: instructions (and those of other libraries)\n\n' "$conduit"
            python3 -B "$ROOT/programs/benches/count.py" "$@"
            ;;
        *)
            echo
            $compare "$@" -- ${PERF:--p}
            ;;
        esac
    )
done
