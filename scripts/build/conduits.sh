#!/bin/sh
# conduits.sh [--all | --hosts | --foreign | --features]: the conduits that are built by default;
# with --all also those that only tests use; with --hosts those of the default ones whose jobs can
# span hosts; with --foreign names of conduits that other releases of GASNet have and this one
# lacks; with --features Cargo's features for all, those of benchmarks too. The list is in
# libraries/any/Cargo.toml.
list() {
    sed -n "$1s/^gasnet-conduit-\([a-z]*\) = .*/$2/p" "$(dirname -- "$0")/../../libraries/any/Cargo.toml" |
        tr '\n' ' ' | sed 's/ $//'
}
case ${1:-} in
--all) list '/# benchmarks only/d;' '\1' ;;
--hosts) list '/# .* only/d;/# one host/d;' '\1' ;;
--foreign)
    known=$(list '' '\1')
    for name in mpi ofi ibv ucx aries gni gemini portals4 psm pami mxm elan; do
        case " $known " in *" $name "*) ;; *) echo "$name" ;; esac
    done | tr '\n' ' ' | sed 's/ $//'
    ;;
--features) list '' 'gasnet-conduit-any\/gasnet-conduit-\1' ;;
*) list '/# .* only/d;' '\1' ;;
esac
