#!/bin/sh
# api-table.sh [--check]: writes docs/api.md, the table of every public symbol and macro: where it
# is specified, whether it is implemented, which programs use it. --check compares instead and fails
# when a name is new, gone, missing or no longer tested, or when a program that is named as a test
# no longer exists; that a further program uses a name makes no difference.
FLAVOUR=release
. "$(dirname -- "$0")/../common.sh"

cd "$ROOT"
case ${1:-} in
'') check= ;;
--check) check=1 ;;
*) echo "api-table.sh: unknown option $1" >&2; exit 2 ;;
esac

scripts/build/headers.sh smp
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
scripts/build/exports.sh smp >"$scratch/exports"
set -- --headers "$B/include" --conduit smp --cc "$CC" --exports "$scratch/exports"
if [ -z "$check" ]; then
    python3 -B scripts/docs/api_table.py "$@" >"$scratch/api.md"
    replace docs/api.md <"$scratch/api.md"
elif ! python3 -B scripts/docs/api_table.py "$@" --check docs/api.md; then
    echo "api-table: docs/api.md is stale: run scripts/docs/api-table.sh" >&2
    exit 1
fi
echo "api: docs/api.md agrees with the headers, the export lists and the tests"
