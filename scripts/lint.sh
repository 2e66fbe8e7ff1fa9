#!/bin/sh
# lint.sh: the layout of Rust, C, C++ and Python; clippy with every warning an error (both
# flavours); the links in Rust's documentation; shell scripts by shellcheck and Python by ruff; the
# levels of src/. `scripts/setup.sh lint` installs the tools; what is missing is named first.
. "$(dirname -- "$0")/common.sh"

cd "$ROOT"
target=$BUILD/lint

# tool COMMAND: the command to run. setup.sh creates $BUILD/ruff.
tool() {
    PATH=$BUILD/ruff/bin:$PATH command -v "$1" && return
    echo "lint: $1 is not installed; run scripts/setup.sh lint" >&2
    exit 1
}
for component in fmt clippy; do
    cargo $component --version >/dev/null 2>&1 ||
        { echo "lint: cargo $component is not installed; run scripts/setup.sh lint" >&2; exit 1; }
done
shellcheck=$(tool shellcheck)
clang_format=$(tool clang-format)
ruff=$(tool ruff)

cargo fmt --all -- --check
cargo fmt --manifest-path proofs/fuzz/Cargo.toml -- --check
cargo fmt --manifest-path proofs/models/Cargo.toml -- --check
cargo clippy --quiet --locked --target-dir "$target" --workspace --all-targets \
    --features "$(scripts/build/conduits.sh --features)" -- -D warnings
cargo clippy --quiet --locked --target-dir "$target" --workspace --all-targets --all-features -- -D warnings
# The documentation is for developers, so links may lead to private items.
RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --quiet --locked --target-dir "$target" \
    --workspace --no-deps --document-private-items

# The sources, also in an unpacked release.
sources() {
    if [ -e .git ]; then
        git ls-files --cached --others --exclude-standard
    else
        find . -path ./build -prune -o -path ./target -prune -o -path ./vendor -prune -o -type f -print | sed 's|^\./||'
    fi | while read -r file; do [ ! -f "$file" ] || [ -L "$file" ] || echo "$file"; done
}
shell_scripts() {
    sources | grep -E '^scripts/.*\.sh$'
    sources | grep -v '^scripts/.*\.sh$' | tr '\n' '\0' | xargs -0 grep -lE '^#! ?/(usr/)?bin/(env )?(da|ba)?sh'
}
shell_scripts | tr '\n' '\0' | xargs -0 "$shellcheck"
if ! sources | grep -E '\.(c|cc|h)$' | tr '\n' '\0' | xargs -0 "$clang_format" --dry-run -Werror; then
    echo "lint: the layout is that of clang-format 14; here is $("$clang_format" --version)" >&2
    exit 1
fi
sources | grep '\.py$' | tr '\n' '\0' | xargs -0 "$ruff" check --quiet --no-cache
sources | grep '\.py$' | tr '\n' '\0' | xargs -0 "$ruff" format --quiet --no-cache --diff
python3 -B scripts/check/levels.py --selftest
python3 -B scripts/check/levels.py
python3 -B scripts/check/roles.py
python3 -B scripts/check/style.py --selftest
python3 -B scripts/check/style.py
# The marker objects are compiled in every mode with warnings as errors by the header check and by
# package-lib.sh.
echo "lint: clean"
