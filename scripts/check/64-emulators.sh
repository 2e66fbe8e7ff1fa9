# The emulators: that of verbs has the exports of Debian's library; their conformance programs give
# the expected answers on them, and so does each fault.
. "$(dirname -- "$0")/lib.sh"
scratch
verbs=$ROOT/emulators/verbs
ugni=$ROOT/emulators/ugni
elan=$ROOT/emulators/elan
EMULATORS=$BUILD/emulators
export EMULATORS
nl='
'

# exports LIBRARY: functions and their default versions.
exports() { objdump -T "$1" | sed -n 's/.* DF \.text.* \(IBVERBS_[^ ]*\) *\([^ ]*\)$/\1 \2/p' | sort; }

# conformance EXPECTED OPTION...: on an emulator with these options.
conformance() {
    _expected=$1
    shift
    timeout 120 "$ROOT/scripts/with-emulator" verbs "$@" "$WORK/conformance" >"$WORK/answers" &&
        diff -u "$_expected" "$WORK/answers"
}

# faults: each section of faults.txt is "== FAULTS | TESTS" and what these print.
faults() {
    grep '^== ' "$verbs/tests/faults.txt" | while IFS='|' read -r words names; do
        printf '%s|%s\n' "$words" "$names"
        # shellcheck disable=SC2086 # several names
        timeout 60 "$ROOT/scripts/with-emulator" verbs --hcas 2 --faults "${words#== }" "$WORK/conformance" $names \
            </dev/null 2>/dev/null | grep -v '^done$'
    done >"$WORK/answers"
    diff -u "$verbs/tests/faults.txt" "$WORK/answers"
}

# gni EXPECTED OPTION...: the conformance program of uGNI on an emulator with these options.
gni() {
    _expected=$1
    shift
    timeout 120 "$ROOT/scripts/with-emulator" ugni --faults yield=10 "$@" "$WORK/gni" >"$WORK/answers" 2>/dev/null &&
        diff -u "$_expected" "$WORK/answers"
}

# gni_faults: as `faults`.
gni_faults() {
    grep '^== ' "$ugni/tests/faults.txt" | while IFS='|' read -r words names; do
        printf '%s|%s\n' "$words" "$names"
        # shellcheck disable=SC2086 # several names
        timeout 60 "$ROOT/scripts/with-emulator" ugni --faults "${words#== }" "$WORK/gni" $names \
            </dev/null 2>/dev/null | grep -v '^done$'
    done >"$WORK/answers"
    diff -u "$ugni/tests/faults.txt" "$WORK/answers"
}

# gni_program: compiles the conformance program of uGNI.
gni_program() {
    # shellcheck disable=SC2046 # several sources
    "$CC" -std=gnu11 -O1 -Wall -Wextra -Werror -I"$ugni/include" -o "$WORK/gni" $(suite ugni) \
        -L"$EMULATORS/ugni" -lugni -lpthread
}

# elan EXPECTED OPTION...: the conformance program of Elan on an emulator with these options.
elan() {
    _expected=$1
    shift
    timeout 120 "$ROOT/scripts/with-emulator" elan --faults yield=10 "$@" "$WORK/elan" >"$WORK/answers" 2>/dev/null &&
        diff -u "$_expected" "$WORK/answers"
}

# elan_faults: as `faults`.
elan_faults() {
    grep '^== ' "$elan/tests/faults.txt" | while IFS='|' read -r words names; do
        printf '%s|%s\n' "$words" "$names"
        # shellcheck disable=SC2086 # several names
        timeout 60 "$ROOT/scripts/with-emulator" elan --faults "${words#== }" "$WORK/elan" $names \
            </dev/null 2>/dev/null | grep -v '^done$'
    done >"$WORK/answers"
    diff -u "$elan/tests/faults.txt" "$WORK/answers"
}

# elan_program: compiles the conformance program of Elan.
elan_program() {
    # shellcheck disable=SC2046 # several sources
    "$CC" -std=gnu11 -O1 -Wall -Wextra -Werror -I"$ROOT/conduit-elan" -o "$WORK/elan" $(suite elan) \
        -ldl -lpthread
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
    attempt "emulators: compile the conformance program of ugni" gni_program; then
    attempt "emulators: ugni, Aries" gni "$ugni/tests/conformance.txt"
    attempt "emulators: ugni, Gemini" gni "$ugni/tests/gemini.txt" --flavour gemini
    for words in late reorder "late reorder early-event delay=30"; do
        attempt "emulators: ugni, $words" gni "$ugni/tests/conformance.txt" --faults "$words" --seed "$random"
    done
    attempt "emulators: ugni, faults" gni_faults
fi
if attempt "emulators: build elan" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$elan/build.sh" "$EMULATORS/elan" &&
    attempt "emulators: compile the conformance program of elan" elan_program; then
    attempt "emulators: elan, exports" elan_exports
    for flavour in elan3 elan4; do
        attempt "emulators: $flavour" elan "$elan/tests/$flavour.txt" --flavour $flavour
        for words in late reorder "late reorder shuffle delay=30"; do
            attempt "emulators: $flavour, $words" elan "$elan/tests/$flavour.txt" --flavour $flavour \
                --faults "$words" --seed "$random"
        done
    done
    attempt "emulators: elan, faults" elan_faults
fi
attempt "emulators: build pmi" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$ROOT/emulators/pmi/build.sh" \
    "$EMULATORS/pmi" && attempt "emulators: pmi, aprun, srun" "$ROOT/emulators/pmi/tests/run.sh" "$EMULATORS/pmi"
if [ ! -e /usr/include/infiniband/verbs.h ]; then
    skip "emulators: libibverbs-dev is not installed"
    finish
fi
attempt "emulators: build" env CARGO_TARGET_DIR="$BUILD/emulators/target" "$verbs/build.sh" "$EMULATORS/verbs" || finish
conformance_program "$WORK/conformance" || finish
debian=$(find /usr/lib -name libibverbs.so.1 -print -quit)
if [ -n "$debian" ]; then
    exports "$debian" >"$WORK/debian"
    exports "$EMULATORS/verbs/libibverbs.so.1" >"$WORK/ours"
    attempt "emulators: exports of Debian's libibverbs" diff -u "$WORK/debian" "$WORK/ours"
fi
attempt "emulators: verbs, InfiniBand" conformance "$verbs/tests/conformance.txt" --hcas 2
attempt "emulators: verbs, RoCE" conformance "$verbs/tests/conformance.txt" --hcas 2 --ports 2 --link roce
attempt "emulators: verbs, one device" conformance "$verbs/tests/conformance.txt"
attempt "emulators: verbs, late" conformance "$verbs/tests/conformance.txt" --hcas 2 --faults "late delay=30" \
    --seed "$random"
attempt "emulators: verbs, faults" faults
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
if [ "$(find /dev/shm -maxdepth 1 -name 'emu-*.*')" = "$before" ]; then
    pass "emulators: nothing is left behind a kill"
else
    fail "emulators: a killed with-emulator left $(find /dev/shm -maxdepth 1 -name 'emu-*.*' | tr "$nl" ' ')"
fi
finish
