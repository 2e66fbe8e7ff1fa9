#!/bin/sh
# uninstall.sh: removes from $DESTDIR$PREFIX what install.sh noted there: its files, then the
# directories it created, if empty.
. "$(dirname -- "$0")/../common.sh"

: "${PREFIX:?}"
case $PREFIX in /*) ;; *) PREFIX=$(pwd)/$PREFIX ;; esac
to=${DESTDIR:-}${PREFIX%/}
manifest=$to/share/gasnet/manifest
[ -f "$manifest" ] || { echo "nothing to uninstall: $manifest does not exist" >&2; exit 1; }
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
cp "$manifest" "$notes"
sed -n 's/^F //p' "$notes" | while IFS= read -r file; do rm -f "$to/$file"; done
sed -n 's/^D //p' "$notes" | sort -r | while IFS= read -r directory; do
    [ "$directory" != . ] || directory=
    rmdir "$to/$directory" 2>/dev/null || :
done
