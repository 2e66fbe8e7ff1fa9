# The unit tests that Miri can run: those without system calls.
. "$(dirname -- "$0")/lib.sh"
if ! cargo miri --version >/dev/null 2>&1; then
    skip "miri: this toolchain has no Miri"
elif [ "$SCOPE" != all ]; then
    skip "miri: runs in make check-all"
else
    cd "$ROOT" || exit 1
    CARGO_TARGET_DIR=$BUILD/miri attempt "miri" timeout 2400 cargo miri test --quiet --locked -p gasnet \
        -p gasnet-conduit --lib -- \
        shm::ring shm::pool shm::layout shm::barrier_cells sync:: event:: am:: rma::
fi
finish
