# The oldest Rust that Cargo.toml names compiles everything. `make check-all` fetches it by rustup,
# where that is there and has a network.
. "$(dirname -- "$0")/lib.sh"
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
compile() (
    cd "$ROOT" && CARGO_TARGET_DIR=$BUILD/oldest cargo "+$oldest.0" check --quiet --locked --workspace "$@"
)
if [ "$SCOPE" != all ]; then
    skip "oldest: runs in make check-all"
elif ! cargo "+$oldest.0" --version >/dev/null 2>&1; then
    skip "oldest: Rust $oldest is not installed"
else
    attempt "Rust $oldest" compile
    attempt "Rust $oldest, all features" compile --all-features
fi
finish
