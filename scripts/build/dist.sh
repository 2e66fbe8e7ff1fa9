#!/bin/sh
# dist.sh: $BUILD/GASNet-VERSION.tar.gz, a release that builds offline (its crates are inside) and
# that clients unpack and configure themselves. Takes what git has under version control, or, in an
# unpacked release, all files. The same sources give the same bytes.
. "$(dirname -- "$0")/../common.sh"

name=GASNet-$VERSION
stage=$BUILD/dist
rm -rf "$stage"
mkdir -p "$stage/$name"
cd "$ROOT"
if [ -e .git ]; then
    git ls-files -z | tar -c --null -T - -f - | tar -x -C "$stage/$name" -f -
    date=$(git log -1 --format=%ct)
else
    # Without the files that configure and make wrote.
    tar -c --exclude=./build --exclude=./target --exclude='./config.*' --exclude='./*-conduit' --exclude=./bin \
        --exclude=./lib \
        --exclude=./gasnet_config.h --exclude='./gasnet*.mak' -f - . | tar -x -C "$stage/$name" -f -
    date=$(stat -c %Y CHANGELOG.md)
fi
cd "$stage/$name"
./Bootstrap >/dev/null
if [ ! -d vendor ]; then
    mkdir -p .cargo
    cargo vendor --quiet --locked --versioned-dirs vendor
    # Crates for Windows: Cargo reads their manifests, but nothing here builds them.
    for crate in vendor/windows-*; do
        find "$crate" -mindepth 1 -type f ! -name Cargo.toml ! -name .cargo-checksum.json ! -iname 'license*' -delete
        find "$crate" -mindepth 1 -type d -empty -delete
        mkdir "$crate/src"
        : >"$crate/src/lib.rs"
        sed -i 's/"files":{[^}]*}/"files":{}/' "$crate/.cargo-checksum.json"
    done
    cat >.cargo/config.toml <<'CONFIG'
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
CONFIG
fi
cd "$stage"
tar -c --mode='u+rwX,go+rX,go-w' --sort=name --mtime="@${SOURCE_DATE_EPOCH:-$date}" --owner=0 --group=0 \
    --numeric-owner --pax-option=delete=atime,delete=ctime "$name" |
    gzip -9n >"$BUILD/$name.tar.gz"
rm -rf "$stage"
echo "$BUILD/$name.tar.gz"
