#!/bin/sh
# check-exports.sh LIB: the global symbols of a packaged tools library (.a or .so) are exactly those
# of exports.txt. Of the two link-check symbols
# gasnett_needs_{debug,release}_library_*, a library has the one of its flavour.
set -eu
lib=$1
list=$(dirname "$0")/exports.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
case $lib in
  *.a) nm -g --defined-only "$lib" ;;
  *) nm -D --defined-only "$lib" ;;
esac | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u > "$tmp/all"
grep '^gasnett_needs_' "$tmp/all" > "$tmp/flavour" || true
grep -v '^gasnett_needs_' "$tmp/all" > "$tmp/found" || true
grep -v '^gasnett_needs_' "$list" > "$tmp/expected"
status=0
if ! diff "$tmp/expected" "$tmp/found" > "$tmp/diff"; then
  echo "$lib: symbols differ from $list (< missing, > not listed):" >&2
  grep '^[<>]' "$tmp/diff" >&2
  status=1
fi
if [ "$(wc -l < "$tmp/flavour")" -ne 1 ] || ! grep -qxFf "$tmp/flavour" "$list"; then
  echo "$lib: exactly one link-check symbol of $list is expected, found: $(tr '\n' ' ' < "$tmp/flavour")" >&2
  status=1
fi
exit $status
