# The C programs under AddressSanitizer + UndefinedBehaviorSanitizer, ThreadSanitizer and valgrind.
# Where a nightly toolchain is at hand the Rust core is instrumented too; otherwise only the clients
# are, and ThreadSanitizer, which would not see the core's locks, is a skip.
# Families with a script are left out: a sanitizer changes how a process ends.
# Valgrind is slow and never gets the stress programs. Suppressions, each with its reason:
# scripts/check/*.supp.
. "$(dirname -- "$0")/lib.sh"
in_check_all sanitize
scratch
cp "$ROOT"/scripts/check/*.supp "$WORK"
basic="objects cxx am rma event coll segment atomic vis mk"
families=$(families)

nightly=
if cargo +nightly --version >/dev/null 2>&1; then nightly=nightly; fi

# instrument NAME SANITIZER C_FLAGS [CFG]: an installation of its own in build/NAME/stage.
instrument() {
    # LLVM's names for instrumented memory functions, which gcc's runtime intercepts under the plain
    # ones.
    PACKAGE_OBJCOPY="--redefine-sym __tsan_memcpy=memcpy --redefine-sym __tsan_memmove=memmove --redefine-sym __tsan_memset=memset" \
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    RUSTUP_TOOLCHAIN=$nightly RUSTFLAGS="-Zsanitizer=$2 -Cunsafe-allow-abi-mismatch=sanitizer${4:+ --cfg $4}" \
        make --no-print-directory -C "$ROOT" install CONDUITS=smp UNIVERSAL=0 PROGRAMS=0 MODES=par DEBUG=0 \
        DESTDIR= CC="$CC $3" CXX="$CXX $3" BUILD="$BUILD/$1" PREFIX="$BUILD/$1/stage"
}

# programs NAME PREFIX ENVIRONMENT FLAGS FACTOR [WRAPPER]: runs the C programs and names the tool in
# each line.
programs() {
    # shellcheck disable=SC2086 # several families
    tests $families --lines="$1: " --library release="$2" --configurations release:smp:0 --modes par \
        --few-ranks "1 2 4" --env "$3" "--flags=$4" --timeout-factor "$5" --leave-out "$skip" "--wrapper=${6:-}" \
        -n "$(nproc)" || failures=1
}

# gcc warns of every fence, which ThreadSanitizer does not understand: hence -Wno-tsan for the
# tools' atomics.
skip="rma_huge=moves_gigabytes,_and_a_sanitizer's_shadow_is_several_times_that segment_most=takes_most_of_the_memory \
tools_backtrace=a_debugger_needs_minutes_to_read_an_instrumented_program"
ubsan="-fsanitize=undefined -fno-sanitize-recover=undefined"
# Signal stacks are the library's: those of the sanitizer hide them, and it trips over its own when
# a cancelled thread ends.
asan_options="detect_leaks=0:abort_on_error=0:detect_stack_use_after_return=0:use_sigaltstack=0"
if [ -n "$nightly" ]; then
    if attempt "asan: library" instrument asan address "-fsanitize=address $ubsan"; then
        programs asan "$BUILD/asan/stage" "ASAN_OPTIONS=$asan_options" "" 4
    fi
    if attempt "tsan: library" instrument tsan thread "-fsanitize=thread" gasnet_tsan; then
        # The standard library is not instrumented: the tool does not see the end of its scoped
        # threads.
        others=$skip
        why=scoped_threads_of_the_standard_library_are_not_instrumented
        skip="$skip diagnosis=$why testgasnet=$why"
        programs tsan "$BUILD/tsan/stage" \
            "TSAN_OPTIONS=suppressions=$WORK/tsan.supp:die_after_fork=0:halt_on_error=0:exitcode=66" "-Wno-tsan" 8
        skip=$others
    fi
else
    programs asan "$STAGE_RELEASE" "ASAN_OPTIONS=$asan_options" "-fsanitize=address $ubsan" 4
    skip "tsan: no nightly toolchain to instrument the core with"
fi
if command -v valgrind >/dev/null 2>&1; then
    families=$basic
    programs valgrind "$STAGE_RELEASE" "" "" 20 \
        "valgrind -q --error-exitcode=99 --trace-children=yes --vgdb=no --suppressions=$WORK/valgrind.supp"
else
    skip "valgrind: not installed"
fi
finish
