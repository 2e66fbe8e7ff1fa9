# The oldest Rust that Cargo.toml names compiles everything. `make check-all` takes it from rustup
# where that has it, else from Debian's packages (rustc-web), which it unpacks into the build
# folder.
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check/debian.sh"
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")

compile() (
    cd "$ROOT" && CARGO_TARGET_DIR=$BUILD/oldest/target cargo check --quiet --locked --workspace "$@"
)

in_check_all oldest
if cargo "+$oldest.0" --version >/dev/null 2>&1; then
    export RUSTUP_TOOLCHAIN="$oldest.0"
elif why=$(unpack_rust "$oldest" 2>&1); then
    export RUSTC="$UNPACKED/rust/rustc"
else
    skip "oldest: neither rustup nor Debian's packages have Rust $oldest here: $(printf '%s\n' "$why" | tail -n 1)"
    finish
fi
attempt "Rust $oldest" compile
attempt "Rust $oldest, all features" compile --all-features
finish
