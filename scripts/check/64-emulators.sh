# The emulators: that of verbs has the exports of Debian's library; their conformance programs give
# the expected answers on them, and so does each fault.
. "$(dirname -- "$0")/lib.sh"
scratch
verbs=$ROOT/emulators/verbs
ugni=$ROOT/emulators/ugni
elan=$ROOT/emulators/elan
EMULATORS=$BUILD/emulators
export EMULATORS

# exports LIBRARY: functions and their default versions.
exports() { objdump -T "$1" | sed -n 's/.* DF \.text.* \(IBVERBS_[^ ]*\) *\([^ ]*\)$/\1 \2/p' | sort; }

# answers EXPECTED EMULATOR OPTION...: its conformance program on an emulator with these options.
answers() {
    _expected=$1 _program=$WORK/$2
    shift
    timeout 120 "$ROOT/scripts/with-emulator" "$@" "$_program" >"$WORK/answers" && diff -u "$_expected" "$WORK/answers"
}
gni() { _answers=$1; shift; answers "$_answers" ugni --faults yield=10 "$@"; }
elan() { _answers=$1; shift; answers "$_answers" elan --faults yield=10 "$@"; }

# faults EMULATOR OPTION...: each section of faults.txt is "== FAULTS | TESTS" and what these print.
faults() {
    _sections=$ROOT/emulators/$1/tests/faults.txt _program=$WORK/$1
    grep '^== ' "$_sections" | while IFS='|' read -r words names; do
        printf '%s|%s\n' "$words" "$names"
        # shellcheck disable=SC2086 # several names
        timeout 60 "$ROOT/scripts/with-emulator" "$@" --faults "${words#== }" "$_program" $names \
            </dev/null 2>/dev/null | grep -v '^done$'
    done >"$WORK/answers"
    diff -u "$_sections" "$WORK/answers"
}

# elan_exports: the library exports one function.
elan_exports() {
    [ "$(objdump -T "$EMULATORS/elan/libgasnet_elan_shim.so" | sed -n 's/.* DF \.text.* //p')" = gasnet_elan_shim ]
}

# pingpong PROGRAM OPTION...: a program of ibverbs-utils, as server and client. The client tries
# until the server listens.
pingpong() {
    # shellcheck disable=SC2016 # for the other shell
    timeout 60 "$ROOT/scripts/with-emulator" verbs --faults yield=10 sh -c '
        "$@" & server=$!
        until "$@" localhost; do kill -0 $server || exit 1; done
        wait $server' pingpong "$@" -p $((20000 + $$ % 20000)) -n 200
}

random=$(printf %s "$SEED" | cksum | cut -d' ' -f1)
if attempt "emulators: build ugni" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$ugni/build.sh" "$EMULATORS/ugni" &&
    conformance_program ugni "$WORK/ugni" -I"$ugni/include" -L"$EMULATORS/ugni" -lugni -lpthread; then
    attempt "emulators: ugni, Aries" gni "$ugni/tests/conformance.txt"
    attempt "emulators: ugni, Gemini" gni "$ugni/tests/gemini.txt" --flavour gemini
    for words in late reorder "late reorder early-event delay=30"; do
        attempt "emulators: ugni, $words" gni "$ugni/tests/conformance.txt" --faults "$words" --seed "$random"
    done
    attempt "emulators: ugni, faults" faults ugni
fi
if attempt "emulators: build elan" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$elan/build.sh" "$EMULATORS/elan" &&
    conformance_program elan "$WORK/elan" -I"$ROOT/conduit-elan" -ldl -lpthread; then
    attempt "emulators: elan, exports" elan_exports
    for flavour in elan3 elan4; do
        attempt "emulators: $flavour" elan "$elan/tests/$flavour.txt" --flavour $flavour
        for words in late reorder "late reorder shuffle delay=30"; do
            attempt "emulators: $flavour, $words" elan "$elan/tests/$flavour.txt" --flavour $flavour \
                --faults "$words" --seed "$random"
        done
    done
    attempt "emulators: elan, faults" faults elan
fi
attempt "emulators: build pmi" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$ROOT/emulators/pmi/build.sh" \
    "$EMULATORS/pmi" && attempt "emulators: pmi, aprun, srun" "$ROOT/emulators/pmi/tests/run.sh" "$EMULATORS/pmi"
if [ ! -e /usr/include/infiniband/verbs.h ]; then
    skip "emulators: libibverbs-dev is not installed"
    finish
fi
attempt "emulators: build" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$verbs/build.sh" "$EMULATORS/verbs" || finish
conformance_program verbs "$WORK/verbs" -libverbs || finish
debian=$(find /usr/lib -name libibverbs.so.1 -print -quit)
if [ -n "$debian" ]; then
    exports "$debian" >"$WORK/debian"
    exports "$EMULATORS/verbs/libibverbs.so.1" >"$WORK/ours"
    attempt "emulators: exports of Debian's libibverbs" diff -u "$WORK/debian" "$WORK/ours"
fi
attempt "emulators: verbs, InfiniBand" answers "$verbs/tests/conformance.txt" verbs --hcas 2
attempt "emulators: verbs, RoCE" answers "$verbs/tests/conformance.txt" verbs --hcas 2 --ports 2 --link roce
attempt "emulators: verbs, one device" answers "$verbs/tests/conformance.txt" verbs
attempt "emulators: verbs, late" answers "$verbs/tests/conformance.txt" verbs --hcas 2 --faults "late delay=30" \
    --seed "$random"
attempt "emulators: verbs, faults" faults verbs --hcas 2
for program in rc uc ud srq xsrq; do
    if command -v "ibv_${program}_pingpong" >/dev/null; then
        attempt "emulators: verbs, ibv_${program}_pingpong" pingpong "ibv_${program}_pingpong"
    else
        skip "emulators: verbs, ibv_${program}_pingpong: ibverbs-utils is not installed"
    fi
done
# Posting by calls, and polling a CQ field by field.
command -v ibv_rc_pingpong >/dev/null &&
    attempt "emulators: verbs, ibv_rc_pingpong, extended interfaces" pingpong ibv_rc_pingpong -N -t
before=$(find /dev/shm -maxdepth 1 -name 'emu-*.*')
timeout -s KILL 1 "$ROOT/scripts/with-emulator" verbs sleep 3
sleep 0.5
same "emulators: nothing is left behind a kill" "$(find /dev/shm -maxdepth 1 -name 'emu-*.*')" "$before"
finish
