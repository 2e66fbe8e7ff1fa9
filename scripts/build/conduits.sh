#!/bin/sh
# conduits.sh [--all | --features]: the conduits that are built by default; with --all also those
# that only tests use; with --features Cargo's features for all of them. The list is in
# conduit-any/Cargo.toml.
list() {
    sed -n "$1s/^gasnet-conduit-\([a-z]*\) = .*/$2/p" "$(dirname -- "$0")/../../conduit-any/Cargo.toml" |
        tr '\n' ' ' | sed 's/ $//'
}
case ${1:-} in
--all) list '' '\1' ;;
--features) list '' 'gasnet-conduit-any\/gasnet-conduit-\1' ;;
*) list '/# tests only/d;' '\1' ;;
esac
