#!/bin/sh
# test.sh [NAME...]: the tests of a conduit (ofi), a family of gasnet-compat-tests (am) or a crate
# (job); without a name those of all crates, and a few programs over each conduit. Of a conduit: its
# crate, its emulator, and on two ranks the families whose calls use a network. Of a family: in PAR
# over smp, and over udp with a neighbourhood for each rank. Libraries are built in $BUILD/test,
# without link-time optimisation. Installs nothing; names what is missing first.
. "$(dirname -- "$0")/common.sh"
. "$ROOT/scripts/pytest.sh"

cd "$ROOT"
unset MAKEFLAGS MFLAGS MAKELEVEL FLAVOUR SEGMENT DESTDIR PREFIX CONDUITS MODES UNIVERSAL PROGRAMS CROSS
log=$BUILD/test.log stage=$BUILD/test/stage
core="am/am_payload.c am/am_flood.c am/am_negotiated.c rma/rma_nonblocking.c rma/rma_value.c \
    atomic/atomic_operations.c vis/vis_random.c event/event_arrays.c coll/reduce.c coll/teams.c"
all=$(scripts/build/conduits.sh --all)
mkdir -p "$BUILD"
: >"$log"
SETUP=0 scripts/setup.sh check

among() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac; }
crates=$(sed -n 's/^name = "\(gasnet[a-z-]*\)"$/\1/p' Cargo.lock | tr '\n' ' ')
families=$(cd gasnet-compat-tests && for family in *; do
    case $family in common | headers | support | cluster | network | __* | *.*) ;; *) printf '%s ' "$family" ;; esac
done)

# run NAME COMMAND...: shows and keeps the output. A failure without a line of its own gets one.
run() {
    _before=$(wc -l <"$log") _name=$1
    shift
    { "$@" 2>&1 || echo "exit status $? of $*"; } | tee -a "$log"
    if tail -n +"$((_before + 1))" "$log" | grep -q '^exit status' &&
        ! tail -n +"$((_before + 1))" "$log" | grep -qE '^FAIL |^test result: FAILED'; then
        echo "FAIL $_name" | tee -a "$log"
    fi
}
rust_tests() {
    run "tests in Rust" env CARGO_TARGET_DIR="$BUILD/unit" python3 -B scripts/check/unit_tests.py "$@"
}
libraries() { # CONDUITS
    run "libraries of $1" env CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 BUILD="$BUILD/test" \
        make --no-print-directory -j "$(nproc)" install CONDUITS="$1" MODES=par UNIVERSAL=0 PREFIX="$stage"
}
programs() { # CONFIGURATIONS FOLDER|OPTION...
    _configurations=$1
    shift
    run "programs over $_configurations" tests "$@" --lines --library release="$stage" --modes par \
        --configurations "$_configurations" --timeout-factor 3 -n "$(nproc)"
}

# Unknown names are refused before anything runs.
for name; do
    among "$name" "$all" || among "$name" "$families" || among "$name" "$crates" ||
        among "gasnet-$name" "$crates" && continue
    echo "test: there is no '$name'. Conduits: $all. Families: $families. Crates: $crates" >&2
    exit 2
done
if [ $# -eq 0 ]; then
    export GASNET_TEST_PLANS="test:3"
    rust_tests --workspace --exclude gasnet-conduit-any --exclude gasnet-libraries \
        --features "$(scripts/build/conduits.sh --features)"
    libraries "$all"
    # shellcheck disable=SC2046,SC2086 # several words
    programs "release:smp:0 $(printf 'release:%s:1 ' $(echo "$all" | sed 's/smp//'))" $core
fi
for name; do
    if among "$name" "$all"; then
        set -- -p "gasnet-conduit-$name"
        case $name in
        ibv) set -- "$@" -p gasnet-emulator-verbs ;;
        gni) set -- "$@" -p gasnet-emulator-ugni ;;
        elan) set -- "$@" -p gasnet-emulator-elan ;;
        esac
        rust_tests "$@"
        libraries "$name"
        where=release:$name:1
        [ "$name" != smp ] || where=release:smp:0
        programs "$where" am rma atomic vis event coll --few-ranks 2
    elif among "$name" "$families"; then
        libraries "smp udp"
        where="release:smp:0 release:udp:1"
        [ "$name" != tools ] || where=release:smp:0
        programs "$where" --dist loadgroup -m "not hosts" "$name"
    else
        among "$name" "$crates" || name=gasnet-$name
        # Its programs know the conduits by the features of gasnet-conduit-any.
        if [ "$name" = gasnet-launcher ]; then
            rust_tests -p "$name" --features "$(scripts/build/conduits.sh --features)"
        else
            rust_tests -p "$name"
        fi
    fi
done
awk '/^PASS /{ passed++ } /^FAIL /{ failed++ } /^SKIP /{ skipped++ }
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit (failed > 0 || !passed) }' "$log"
