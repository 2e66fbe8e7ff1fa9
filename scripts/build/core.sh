#!/bin/sh
# core.sh CONDUIT|any|tools|launcher: compiles the Rust part into $CORE/core/, once for all thread
# modes. A library of one conduit and the universal one (any) are the same crate with different
# features.
#
# A conduit and the tools become a static library (only that crate type: with several, fat LTO
# silently does not apply).
. "$(dirname -- "$0")/../common.sh"

what=$1
cd "$ROOT"

# Neither the sources' place nor the user's home may reach the objects.
cargo_home=${CARGO_HOME:-${HOME:-}/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$BUILD=/build"
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$ROOT=/gasnet"
# The C parts are linked into one object with the rest: no bytecode.
CFLAGS="${CFLAGS:-} -fno-lto -ffile-prefix-map=$BUILD=/build -ffile-prefix-map=$ROOT=/gasnet"
export RUSTFLAGS CFLAGS

target=$CORE/cargo
set --
if [ "$FLAVOUR" = debug ]; then
    CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
    export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS
    set -- --features debug-checks
fi

# For this machine, or for what CARGO_BUILD_TARGET says; a user's own settings for Cargo do not move
# the results.
triple=${CARGO_BUILD_TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
mkdir -p "$CORE/core"
# All libraries are made from one crate, whose result has one name: one after the other.
if command -v flock >/dev/null; then
    exec 9>"$CORE/core/.lock"
    flock 9
fi
case $what in
launcher)
    cargo build --quiet --locked --profile program --target-dir "$target" --target "$triple" -p gasnet-launcher --bins \
        --features "$("$ROOT/scripts/build/conduits.sh" --features)"
    for program in gasnetrun gasnet_info gasnet_trace; do
        cp "$target/$triple/program/$program" "$CORE/core/$program.new"
        [ -n "${KEEP_SYMBOLS:-}" ] || strip "$CORE/core/$program.new"
        replace "$CORE/core/$program" <"$CORE/core/$program.new"
        rm -f "$CORE/core/$program.new"
        chmod 755 "$CORE/core/$program"
    done
    exit 0 ;;
tools) crate=gasnet-tools library=libgasnet_tools.a ;;
*)
    crate=gasnet-conduit-any library=libgasnet_conduit_any.a
    [ "$what" = any ] || CONDUITS=$what
    for conduit in $CONDUITS; do set -- "$@" --features "gasnet-conduit-$conduit"; done ;;
esac
cargo rustc --quiet --locked --release --target-dir "$target" --target "$triple" -p "$crate" \
    --lib --crate-type staticlib "$@"
replace "$CORE/core/$what.a" <"$target/$triple/release/$library"
