# Jobs of mpi by the launcher of each MPI that is installed: C programs, ends, and MPI in the same
# program (gasnet-compat-tests/support/mpis.py). Step `c` runs C programs of mpi, too, by one MPI.
. "$(dirname -- "$0")/lib.sh"

# over FOLDER|OPTION...
over() {
    tests --lines --library release="$STAGE_RELEASE" --modes par --timeout-factor 3 -n "$(nproc)" "$@" || failures=1
}

if [ "$SCOPE" = quick ]; then
    over --configurations release:mpi:1 -k "network or not test_end" exit/test_mpi.py
    finish
fi
over --configurations release:mpi:1 exit/test_mpi.py launch/test_mpi.py
over --configurations "release:mpi:1 release:mpi:2" --mpi all am rma atomic vis event coll smoke/testgasnet.c
# Also with wheels on PyPI, which scripts/setup.sh has put there, and their headers.
GASNET_TEST_MPI=$(printf '%s:' "$BUILD"/mpi/*)
export GASNET_TEST_MPI
attempt "mpi: constants and jobs of conduit-mpi" env CARGO_TARGET_DIR="$BUILD/unit" cargo test --quiet --locked \
    --manifest-path "$ROOT/Cargo.toml" -p gasnet-conduit-mpi --lib --test jobs
finish
