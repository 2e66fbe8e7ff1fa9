#!/bin/sh
# Builds the heat demo against the libgasnet installed in PREFIX, runs it, and measures the library.
#   demo.sh PREFIX [INPUT]
# Environment: RANKS (4), MODE (par), CONDUIT (smp), OUT (folder for the programs and the picture:
# build, beside this file).
set -eu

[ $# -ge 1 ] || { echo "usage: $0 PREFIX [INPUT]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "$1" && pwd)
input=${2:-$here/house.txt}
ranks=${RANKS:-4}
mode=${MODE:-par}
conduit=${CONDUIT:-smp}
out=${OUT:-$here/build}
run="$prefix/bin/gasnetrun_$conduit"

mkdir -p "$out"
out=$(cd "$out" && pwd)
echo "== build: $conduit-$mode from $prefix"
make -s -C "$here" GASNET_PREFIX="$prefix" CONDUIT="$conduit" MODE="$mode" OUT="$out"

echo "== heat on $ranks ranks: $input"
"$run" -n "$ranks" "$out/heat" "$input" "$out/heat.png"

echo "== latency and bandwidth between two ranks"
"$run" -n 2 "$out/latbw"
