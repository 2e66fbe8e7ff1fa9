# configure, Bootstrap, config.status and make dist, as clients that build GASNet themselves use
# them. The build itself, from a release and offline, only in make check-all.
. "$(dirname -- "$0")/lib.sh"
scratch
unset CFLAGS CPPFLAGS CXXFLAGS LDFLAGS prefix MPIRUN_CMD PMIRUN_CMD CARGO_BUILD_TARGET CRAYPE_NETWORK_TARGET
cd "$WORK" || exit 1
# A machine without hardware of elan, gni and ofi.
export HARDWARE_ROOT="$WORK/plain"

# in_tree NAME TREE OPTIONS...: configures in the folder TREE.
in_tree() {
    _name=$1 _tree=$2
    shift 2
    mkdir -p "$_tree"
    (cd "$_tree" && "$ROOT/configure" "$@") >"$WORK/log" 2>&1
    _status=$?
    if [ $_status -ne 0 ]; then
        fail "configure: $_name exit status $_status: $(tail -n 3 "$WORK/log" | tr '\n' ' ')"; return 1
    fi
    pass "configure: $_name"
}
has() { if grep -q -- "$2" "$3"; then pass "configure: $1"; else fail "configure: $1: no $2 in $3"; fi; }
lacks() { if grep -q -- "$2" "$3"; then fail "configure: $1: $2 in $3"; else pass "configure: $1"; fi; }
# unused NAME OPTIONS...: the only warning of the last in_tree names these options, which have no
# effect.
unused() {
    _name=$1
    shift
    _warnings=$(grep WARNING "$WORK/log")
    case $_warnings in
    "configure: WARNING: without effect here (docs/compat.md says why): $*") pass "configure: $_name: a warning" ;;
    *) fail "configure: $_name: no such warning, but: $_warnings" ;;
    esac
}
# refuses NAME PATTERN OPTIONS...: ends with a message, and leaves nothing behind.
refuses() {
    _name=$1 _pattern=$2
    shift 2
    mkdir -p refused
    if (cd refused && "$ROOT/configure" "$@") >"$WORK/log" 2>&1; then fail "configure: $_name was accepted"; return; fi
    if grep -Eq -- "$_pattern" "$WORK/log" && [ -z "$(ls -A refused)" ]; then pass "configure: $_name"; else
        fail "configure: $_name: $(head -n 3 "$WORK/log" | tr '\n' ' ') $(ls -A refused)"
    fi
    rm -rf refused
}

# As UPC++ does it.
in_tree "options of UPC++" upcxx \
    --disable-parsync --enable-seq --enable-par --enable-pthreads --disable-segment-everything --enable-smp \
    --disable-debug --with-cc="$CC" --with-cxx="$CXX" --with-cflags='-g -DODD="x y"' --with-cxxflags=
lacks "no warning about options of UPC++" WARNING "$WORK/log"
cp "$WORK/log" "$WORK/upcxx.log"
for file in Makefile gasnet_config.h config.status smp-conduit/Makefile smp-conduit/smp-seq.mak \
    smp-conduit/smp-par.mak gasnet_tools-seq.mak include/gasnetex.h; do
    [ -f "upcxx/$file" ] || fail "configure: no $file in the build tree"
done
[ ! -e upcxx/smp-conduit/smp-parsync.mak ] || fail "configure: a fragment of a mode that is not built"
has "its arguments are in gasnet_config.h" "GASNETI_CONFIGURE_ARGS .*--disable-parsync" upcxx/gasnet_config.h
attempt "configure: gasnet_config.h compiles" "$CC" -fsyntax-only -x c upcxx/gasnet_config.h
attempt "configure: a fragment may be asked for" make -s -C upcxx/smp-conduit smp-seq.mak
printf 'include %s\nshow:\n\t@echo '"'"'$(GASNET_CC) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS)'"'"'\n' \
    "$WORK/upcxx/smp-conduit/smp-par.mak" >show.mk
echo '#include <gasnetex.h>
int maxeps = GASNET_MAXEPS;' >probe.c
flags=$(make -s -f show.mk show)
case $flags in *-DODD=*) pass "configure: --with-cflags is in the fragment" ;; *) \
    fail "configure: --with-cflags is not in the fragment: $flags" ;; esac
attempt "configure: headers can be probed before the build" sh -c "$flags -E probe.c"
cat >names.in <<'EON'
CONDUITS=@CONDUITS@ FAMILY=@CC_FAMILY@/@CXX_FAMILY@/@CC_SUBFAMILY@ PERL=@PERL@ SUFFIX=@EXESUFFIX@
THREADS=@GASNET_THREAD_DEFINES@/@GASNET_THREAD_LIBS@ X=@NOTHING@
EON
attempt "configure: config.status by its environment" \
    sh -c "cd upcxx && CONFIG_COMMANDS= CONFIG_LINKS= CONFIG_HEADERS= CONFIG_FILES=../names:../names.in ./config.status"
has "config.status replaces names" \
    '^CONDUITS=ibv mpi smp ucx udp FAMILY=[A-Z][A-Za-z]*/[A-Z][A-Za-z]*/none PERL=.*perl SUFFIX=$' names
has "config.status leaves other names alone" '^THREADS=-D_REENTRANT/-lpthread X=@NOTHING@$' names
attempt "configure: make echovar" \
    sh -c "make -s -C upcxx echovar VARNAME=CONDUITS | grep -qx 'CONDUITS=\"ibv mpi smp ucx udp\"'"
attempt "configure: config.status knows AR" \
    sh -c "echo 'AR=@AR@' | (cd upcxx && ./config.status --file=-:-) | grep -q '^AR=/.*ar$'"
# Only configured: make check-all builds both.
make -C upcxx/other/amudp -p clean >amudp.rules 2>&1
has "other/amudp has the target of UPC++" '^amudprun:' amudp.rules
has "other/amudp has the target of Chapel" '^amudprun-host:' amudp.rules
has "a summary that clients show" '^GASNet configuration:' "$WORK/upcxx.log"
attempt "configure: config.status --file" \
    sh -c "cd upcxx && ./config.status --file=../names2:../names.in && cmp ../names ../names2"
attempt "configure: config.status --file OUT" \
    sh -c "cd upcxx && ./config.status -q --file ../names3:../names.in && cmp ../names ../names3"
attempt "configure: config.status from input to output" \
    sh -c "cd upcxx && ./config.status --file=-:- <../names.in | cmp - ../names"
attempt "configure: config.status without a template" \
    sh -c "cd upcxx && cp Makefile before.mk && ! ./config.status Makefile && cmp Makefile before.mk && rm before.mk"
attempt "configure: config.status -V and -n" \
    sh -c "cd upcxx && ./config.status -V | grep -q libgasnet && ./config.status -n"
cp -R upcxx/smp-conduit before
attempt "configure: config.status --recheck" sh -c "cd upcxx && ./config.status --recheck"
attempt "configure: --recheck changes nothing" diff -r -x "*.a" before upcxx/smp-conduit
attempt "configure: distclean" make -s -C upcxx distclean
left=$(find upcxx -mindepth 1)
[ -z "$left" ] || fail "configure: distclean leaves $left"

# Options of other programs, values as separate words, one dash, and unknown options.
in_tree "options of Chapel" chapel \
    --enable-segment-everything --disable-auto-conduit-detect --enable-smp --enable-pshm \
    --disable-aligned-segments --disable-hwloc \
    --disable-ibv-odp --disable-hugetlbfs --disable-seq --enable-par --disable-parsync --enable-debug \
    --enable-allow-gcc4
lacks "no warning about options of Chapel" WARNING "$WORK/log"
has "segment and flavour are as asked" 'CONFIGURED_SEGMENT_EVERYTHING 1' chapel/gasnet_config.h
has "the debug flavour is as asked" 'CONFIGURED_DEBUG 1' chapel/gasnet_config.h
in_tree "options of Legion" legion \
    --enable-segment-fast --enable-par --disable-seq --disable-parsync --enable-pthreads --enable-pshm \
    --enable-mpi-compat \
    --with-ofi-provider=tcp --with-ofi-spawner=mpi --with-ibv-max-hcas=4 --enable-kind-cuda-uva=probe \
    --enable-kind-hip --with-cuda-home=/x --disable-backtrace
unused "options of Legion" --with-cuda-home=/x --disable-backtrace
in_tree "options of Spack" spack --prefix "$WORK/place" \
    --disable-auto-conduit-detect --enable-smp --enable-rpath --enable-debug=no --with-cflags=-fPIC \
    --with-cxxflags=-fPIC --with-mpi-cflags=-fPIC --disable-pmi --with-pmi-version=x --enable-kind-ze -enable-par
unused "options of Spack" --enable-rpath --with-mpi-cflags=-fPIC --disable-pmi
has "a site's PMI" '^DEFAULT_PMI := pmix$' spack/config.mk
has "--prefix on a word of its own" "^PREFIX := $WORK/place$" spack/config.mk
# Spack's targets. The library is not built again: that of step "build" takes the place of what
# "make par" would make.
ln -s "$STAGE_RELEASE/lib" spack/build/release/lib
mkdir -p spack/build/release/core
ln -s "$STAGE_RELEASE/bin/gasnetrun_smp" spack/build/release/core/gasnetrun
says() { # NAME TEXT COMMAND...
    _name=$1 _text=$2
    shift 2
    if "$@" >"$WORK/log" 2>&1 && grep -q -- "$_text" "$WORK/log"; then pass "configure: $_name"; else
        fail "configure: $_name: $(tail -n 5 "$WORK/log" | tr '\n' ' ')"
    fi
}
says "run-tests where none is built" "no tests are built" make -C spack/smp-conduit run-tests
attempt "configure: testgasnet-par and testtools-par" make -C spack/smp-conduit -o par testgasnet-par testtools-par
says "run-tests" '^PASS smp-conduit/testgasnet$' make -C spack/smp-conduit run-tests
says "run-tests of one program" '^PASS smp-conduit/testtools$' make -C spack run-tests TESTS=testtools NP=2
lacks "only that one" testgasnet "$WORK/log"
says "testgasnet, as Spack runs it" 'rank 3 of 4 over SMP: done[.]$' env GASNET_VERBOSEENV=1 GASNET_SPAWN_VERBOSE=1 \
    GASNET_SUPERNODE_MAXSIZE=0 \
    GASNET_SSH_SERVERS="localhost localhost" GASNET_PSHM_NODES=4 spack/smp-conduit/testgasnet
says "testtools, as Spack runs it" '^Done[.]$' env GASNET_VERBOSEENV=1 spack/smp-conduit/testtools
says "run-tests-seq at the top" '^PASS smp-conduit/testgasnet$' make -C spack -o seq run-tests-seq
grep -aqF 'GASNET_SEQ' spack/smp-conduit/testgasnet || fail "configure: run-tests-seq has not built for SEQ"
says "run-tests-installed-parsync" '^PASS smp-conduit/testgasnet$' make -C spack run-tests-installed-parsync \
    prefix="$STAGE_RELEASE"
printf '#!/bin/sh\necho not it\n' >spack/smp-conduit/testtools
if make -C spack run-tests >"$WORK/log" 2>&1; then fail "configure: run-tests does not fail where a test does"; else
    has "run-tests fails where a test does" '^FAIL smp-conduit/testtools$' "$WORK/log"
fi
rm spack/build/release/lib spack/build/release/core/gasnetrun
attempt "configure: clean removes tests" sh -c 'make -s -C spack clean &&
    [ ! -e spack/smp-conduit/testgasnet ] && [ -e spack/smp-conduit/smp-par.mak ]'

in_tree "an unknown option" unknown --frobnicate --enable-frobnication
has "an unknown option is named" 'unrecognized option: --enable-frobnication' "$WORK/log"
in_tree "an option that is known for others" unknown --enable-ibv-frobnication --with-pmi-runcmd=x
has "it is named" 'unrecognized option: --enable-ibv-frobnication' "$WORK/log"
has "a value that is near to another option is named" 'unrecognized option: --with-pmi-runcmd=x' "$WORK/log"
attempt "configure: each option of the reference" python3 -B "$ROOT/scripts/docs/configure_options.py" --try \
    "$ROOT/configure"
# PEER_CONFIGURE: the reference's, where a user has it.
if [ -n "${PEER_CONFIGURE:-}" ]; then
    "$PEER_CONFIGURE" --help >"$WORK/peer.help"
    attempt "configure: no option of the reference is missing" python3 -B "$ROOT/scripts/docs/configure_options.py" \
        --against "$WORK/peer.help"
fi
in_tree "settings only" nothing --no-create
has "settings only" '^CONDUITS := ' "$WORK/log"
[ -z "$(ls -A nothing)" ] || fail "configure: --no-create creates $(ls -A nothing)"
in_tree "flags of the preprocessor" flags --with-cppflags=-DA --with-cflags=-DB --enable-trace \
    --with-gasnet-cspawn-cmd='a %C'
has "flags of the preprocessor" '^CONFIG_CFLAGS := -DA -DGASNET_TRACE=1 -DB$' flags/config.mk
has "flags of the preprocessor in C++" '^CONFIG_CXXFLAGS := -DA -DGASNET_TRACE=1$' flags/config.mk
has "a site's command for udp" '^DEFAULT_CSPAWN_CMD := a %C$' flags/config.mk
refuses "a version of PMI that is none" 'x, 1, 2 or cray is expected' --with-pmi-version=3
refuses "a conduit that is not here" 'no conduit portals4' --enable-portals4
in_tree "a conduit that is only probed for" probed --enable-portals4=probe
refuses "no conduit" 'no conduit is left' --disable-smp --disable-ibv --disable-ucx --disable-udp --disable-mpi
# Clients older than a conduit stop at it (UPC++ 2020.11.9 at elan, gni and ofi).
in_tree "conduits that are asked for" asked --enable-elan --enable-gni --enable-ofi
has "conduits that are asked for" '^CONDUITS := elan gni ibv mpi ofi smp ucx udp$' asked/config.mk
for path in dev/kgni0:gni proc/qsnet/version:elan dev/hfi1_0:ofi sys/class/cxi/cxi0:ofi \
    sys/bus/pci/drivers/efa/0000:00:06.0:ofi; do
    name=${path##*:}
    rm -rf hardware
    mkdir -p "hardware/${path%:*}"
    HARDWARE_ROOT=$WORK/hardware
    in_tree "hardware: ${path%:*}" hard
    HARDWARE_ROOT=$WORK/plain
    has "hardware: ${path%:*}" "^CONDUITS := .*\<$name\>" hard/config.mk
done
for target in aries:gni gemini:gni ofi:ofi; do
    export CRAYPE_NETWORK_TARGET="${target%:*}"
    in_tree "module craype-network-${target%:*}" hard
    unset CRAYPE_NETWORK_TARGET
    has "module craype-network-${target%:*}" "^CONDUITS := .*\<${target#*:}\>" hard/config.mk
done
refuses "no mode" 'no thread mode' --disable-seq --disable-par --disable-parsync
refuses "a prefix with a blank" 'special characters in --prefix' --prefix="$WORK/a b"
refuses "a compiler that is none" 'C compiler does not' --with-cc=/bin/false
refuses "an option without its value" 'needs a value' --with-cc
for folder in 'a b' 'a$b' "a'b" 'a#b' 'a%b' 'a:b'; do
    mkdir "$folder"
    if (cd "$folder" && "$ROOT/configure") >"$WORK/log" \
        2>&1; then fail "configure: accepted in a folder '$folder'"; else
        if grep -q 'special characters' "$WORK/log" &&
            [ -z "$(ls -A "$folder")" ]; then pass "configure: refused in a folder '$folder'"; else
            fail "configure: in a folder '$folder': $(tail -n 1 "$WORK/log")"
        fi
    fi
    rmdir "$folder"
done
# Compilers and flags as arguments; what has no effect is reported.
mkdir words
if (cd words && "$ROOT/configure" CC="$CC -g" CFLAGS=-DA=1 LDFLAGS=-Wl,-O1 \
    --disable-auto-conduit-detect --enable-smp --with-max-segsize=64MB/P) >"$WORK/log" 2>&1 &&
    grep -qx "CC := $CC -g" words/config.mk && grep -qx 'CONFIG_CFLAGS := -DA=1' words/config.mk &&
    grep -qx 'CONFIG_LDFLAGS := -Wl,-O1' words/config.mk &&
    ! grep -q WARNING "$WORK/log" &&
    grep -qx 'DEFAULT_MAX_SEGSIZE := 64MB/P' words/config.mk; then pass "configure: CC=, CFLAGS=, LDFLAGS="; else
    fail "configure: CC=, CFLAGS=, LDFLAGS=: $(tail -n 3 "$WORK/log" | tr '\n' ' ')"
fi
# Relative paths are relative to the build tree.
case $(make -n -C words install prefix=here DESTDIR=stage 2>&1) in
*"PREFIX='$WORK/words/here' DESTDIR='$WORK/words/stage'"*) pass "configure: relative prefix and DESTDIR" ;;
*) fail "configure: relative prefix and DESTDIR" ;;
esac
# A site's defaults for the launcher.
in_tree "a site's defaults" site --with-ssh-cmd='rsh $x' --with-ssh-out-degree=7 --with-ssh-nodefile=hosts \
    --without-mpirun-cmd --with-ofi-spawner=pmi --with-ofi-provider=verbs:ofi_rxm --with-ofi-max-medium=8192 \
    --with-ofi-num-completions=32 --with-ucx-spawner=mpi --with-ucx-max-medium=4096 \
    --with-ibv-spawner=ssh --with-ibv-ports=mlx5_0+mlx5_1:2 \
    --with-ibv-max-medium=131072 --with-ibv-physmem-max=0.5 --without-ibv-fenced-puts --enable-ibv-multirail \
    --enable-ibv-physmem-probe --disable-ibv-srq --disable-ibv-xrc --disable-ibv-odp --disable-ibv-atomics
has "a site's command" '^DEFAULT_SSH_CMD := rsh \$\$x$' site/config.mk
has "a site's list of hosts" "^DEFAULT_SSH_NODEFILE := $WORK/site/hosts$" site/config.mk
for value in OFI_SPAWNER:pmi OFI_PROVIDER_INCLUDE:verbs:ofi_rxm OFI_MAX_MEDIUM:8192 OFI_NUM_COMPLETIONS:32 \
    UCX_SPAWNER:mpi UCX_MAX_MEDIUM:4096 IBV_SPAWNER:ssh IBV_PORTS:mlx5_0+mlx5_1:2 \
    IBV_MAX_MEDIUM:131072 PHYSMEM_MAX:0.5 USE_FENCED_PUTS:0 \
    IBV_MAX_HCAS:2 PHYSMEM_PROBE:1 USE_SRQ:0 USE_XRC:0 USE_ODP:0 IBV_ATOMICS:0; do
    has "a site's default for a network" "^DEFAULT_${value%%:*} := ${value#*:}$" site/config.mk
done
in_tree "options of Chapel" chapel --disable-pshm --disable-auto-conduit-detect --enable-smp --enable-ibv
lacks "no warning about options of Chapel" WARNING "$WORK/log"
has "without shared memory" '^DEFAULT_SUPERNODE_MAXSIZE := 1$' chapel/config.mk
refuses "a spawner that is none" 'ssh, mpi, pmi, fork or auto is expected' --with-ofi-spawner=smoke
for number in 0 257 2K; do
    refuses "a number of completions that is none" 'a number from 1 to 256 is expected' --with-ofi-num-completions=$number
done
refuses "a Medium that is too small" 'a number from 512 to 16777216 is expected' --with-ofi-max-medium=511
refuses "a Medium that is too small for ibv" 'a number from 1024 to 262144 is expected' --with-ibv-max-medium=512
refuses "no HCA" 'a number from 1 to 1024 is expected' --with-ibv-max-hcas=0
in_tree "one HCA" onehca --disable-ibv-multirail --with-ibv-max-hcas=4
has "one HCA" '^DEFAULT_IBV_MAX_HCAS := 1$' onehca/config.mk
refuses "a word for yes or no" '0 or 1 is expected' --with-ibv-fenced-puts=perhaps
for number in many 65537 123456; do
    refuses "a number that is none" 'a number from 0 to 65536 is expected' --with-ssh-out-degree=$number
done
refuses "a command that is not there" 'needs a value' --with-ssh-cmd
# As the reference's scripts for Crays do it: for compute nodes with this machine's processor.
processor=$(uname -m)
in_tree "options of a Cray" cray --host="$processor-cnl-linux-gnu" --build "$processor-cle-linux-gnu" \
    --target="$processor-cnl-linux-gnu" --enable-cross-compile --program-prefix=cray- --with-cc="$CC" \
    --with-cxx="$CXX" \
    --disable-auto-conduit-detect --enable-smp --enable-aries --disable-gemini --enable-aries-multi-domain \
    --enable-bug3480-workaround --disable-aries-udreg --with-aries-max-medium=8192 --with-host-detect=conduit \
    --with-pmirun-cmd='srun -K0 -W60 %V -mblock -n %N %C' --with-mpirun-cmd='aprun -n %N %C' --with-gni-spawner=pmi
unused "options of a Cray" --program-prefix=cray-
lacks "the processor is this machine's" CARGO_BUILD_TARGET cray/config.mk
for value in 'CONDUITS:gni smp' 'DEFAULT_USE_UDREG:0' 'DEFAULT_GNI_MAX_MEDIUM:8128' 'DEFAULT_GNI_SPAWNER:pmi' \
    'DEFAULT_PMIRUN_CMD:srun -K0 -W60 %V -mblock -n %N %C' 'DEFAULT_MPIRUN_CMD:aprun -n %N %C'; do
    has "a site's default on a Cray" "^${value%%:*} := ${value#*:}$" cray/config.mk
done
for option in --disable-aries --disable-gemini --disable-gni; do
    export CRAYPE_NETWORK_TARGET=aries
    in_tree "without gni" without "$option" --enable-aries-udreg --disable-bug3480-workaround
    unset CRAYPE_NETWORK_TARGET
    has "$option" '^CONDUITS := ibv mpi smp ucx udp$' without/config.mk
done
in_tree "a spawner of elan" elan --with-elan-spawner=pmi
has "a spawner of elan" '^DEFAULT_ELAN_SPAWNER := pmi$' elan/config.mk
refuses "a spawner of elan that is none" 'ssh, mpi, pmi, fork or auto is expected' --with-elan-spawner=rms
in_tree "one command for two launchers" launchers --with-mpirun-cmd='run -n %N %C'
has "--with-mpirun-cmd alone is for both" '^DEFAULT_PMIRUN_CMD := run -n %N %C$' launchers/config.mk
in_tree "a command from the environment" launchers PMIRUN_CMD='aprun -n %N %C' --with-mpirun-cmd='run -n %N %C'
has "PMIRUN_CMD is a default" '^DEFAULT_PMIRUN_CMD := aprun -n %N %C$' launchers/config.mk
in_tree "the path of aprun" launchers APRUN=/opt/x/aprun
has "the path of aprun" '^DEFAULT_PMIRUN_CMD := /opt/x/aprun -n %N %C$' launchers/config.mk
in_tree "the path of srun" launchers SRUN=/x/srun
has "the path of srun" '^DEFAULT_PMIRUN_CMD := /x/srun -K0 -W60 %V -mblock -n %N %C$' launchers/config.mk
in_tree "a command before a path" launchers SRUN=/x/srun --with-pmirun-cmd='aprun -n %N %C'
has "a command before a path" '^DEFAULT_PMIRUN_CMD := aprun -n %N %C$' launchers/config.mk
for medium in 512:512 1023:960 4032:4032 65408:32704 +65408:65408; do
    in_tree "a largest Medium of ${medium%:*}" medium --with-gemini-max-medium="${medium%:*}"
    has "a largest Medium of ${medium%:*}" "^DEFAULT_GNI_MAX_MEDIUM := ${medium#*:}$" medium/config.mk
done
for medium in 448 65472 +65472 4K +; do
    refuses "a Medium of gni that is none" 'a number from 512 to 65408 is expected' --with-aries-max-medium=$medium
done
refuses "a Medium of gni that is no multiple" 'a multiple of 64 is expected' --with-aries-max-medium=+4100
refuses "a spawner of gni that is none" 'ssh, mpi, pmi, fork or auto is expected' --with-gni-spawner=alps
refuses "hosts that are known by another way" 'gethostid, hostname or conduit is expected' --with-host-detect=ip
# Another machine.
if [ "$processor" = aarch64 ]; then other=x86_64; else other=aarch64; fi
in_tree "another processor" foreign --host=$other-linux-gnu --with-cc="$CC" --with-cxx="$CXX"
has "another processor" "^export CARGO_BUILD_TARGET ?= $other-unknown-linux-gnu$" foreign/config.mk
has "its tools have its name" "^CROSS := $other-linux-gnu$" foreign/config.mk
attempt "configure: config.status knows another machine's AR" \
    sh -c "echo 'AR=@AR@' | (cd foreign && ./config.status --file=-:-) | grep -q '^AR=.*$other-linux-gnu-ar$'"
in_tree "tools by name" tools --target=$other-linux-gnu --with-cc="$CC" --with-cxx="$CXX" LD=ld.x AR=ar.x STRIP=strip.x
has "a linker" '^export LD := ld.x$' tools/config.mk
has "a stripper" '^export STRIP := strip.x$' tools/config.mk
attempt "configure: config.status knows AR by name" \
    sh -c "echo 'AR=@AR@' | (cd tools && ./config.status --file=-:-) | grep -qx 'AR=ar.x'"
refuses "another processor without a compiler" 'name its compilers' --host=$other-none-linux-gnu CC= CXX=
refuses "a machine of 32 bits" 'libgasnet needs a machine of 64 bits' --host=i686-linux-gnu
[ "$processor" != x86_64 ] ||
    refuses "a compiler for 32 bits" 'needs a compiler for 64 bits' --with-cc="$CC -m32 -fsyntax-only"
refuses "a processor that Rust lacks" 'Rust has no target k1om-unknown-linux-gnu' --target=k1om-mpss-linux --host=x
refuses "another system" 'a machine with Linux is expected' --host="$processor-apple-darwin"
refuses "a machine without its name" 'needs a value' --host
attempt "configure: --help" sh -c "'$ROOT/configure' --help | grep -q -- --with-cflags"
attempt "configure: --help has the options of gni" sh -c "'$ROOT/configure' --help | grep -q GASNET_GNI_MAX_MEDIUM"

# A release.
attempt "dist: make dist" make -s -C "$ROOT" dist BUILD="$WORK/dist"
attempt "dist: whatever the umask" \
    sh -c "umask 077 && make -s -C '$ROOT' dist BUILD='$WORK/dist077' && cmp dist/*.tar.gz dist077/*.tar.gz"
attempt "dist: it unpacks" tar -xzf dist/GASNet-2025.8.0.tar.gz
for file in gasnet.h gasnetex.h gasnet_config.h.in configure Bootstrap docs/GASNet-EX.txt vendor; do
    [ -e "GASNet-2025.8.0/$file" ] || fail "dist: no $file in the release"
done
if [ "$SCOPE" = all ]; then
    # Configured in place, and once more elsewhere, each with options of its own.
    odd='-DTEXT="x  y" -DQ="it'"'"'s"'
    configured() (
        cd GASNet-2025.8.0 && ./configure --disable-parsync --with-cflags=-DINSIDE && mkdir ../other && cd ../other &&
            ../GASNet-2025.8.0/configure --enable-ofi --with-cflags="$odd" \
            --with-ssh-cmd='rsh -x $y' --with-ssh-options='-o "A b"' --with-ssh-out-degree=7 --with-ssh-nodefile=hosts \
            --with-mpirun-cmd='start-here -n %N %C tag#1' --with-ofi-spawner=mpi --with-ofi-provider=verbs:ofi_rxm \
            --with-ofi-max-medium=8192 --with-ofi-num-completions=32 --with-ibv-physmem-max=7/16 \
            --with-aries-max-medium=+8000
    )
    # Other steps test the optimised libraries.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    # Each of these runs in a subshell, and sets its variables for that only.
    # shellcheck disable=SC2030,SC2031
    in_place() (
        export CARGO_HOME="$WORK/home" CARGO_NET_OFFLINE=true
        cd GASNet-2025.8.0 || exit 1
        { make seq & make -C smp-conduit par && wait $!; } && make -C other/amudp amudprun-host CC='' CXX='' &&
            other/amudp/amudprun-host --version && make -C smp-conduit testgasnet-par testtools-par &&
            make run-tests run-tests-seq
    )
    # shellcheck disable=SC2030,SC2031
    installed() (
        export CARGO_HOME="$WORK/home" CARGO_NET_OFFLINE=true
        mkdir -p other/build/release && cp -R GASNet-2025.8.0/build/release/cargo other/build/release/ &&
            cp -R GASNet-2025.8.0/build/programs other/build/ &&
            make -C GASNet-2025.8.0 install prefix="$WORK/pfx" &&
            make -C other install prefix="$WORK/pfx2" && pfx2/bin/gasnet_info --env >"env" &&
            grep -q INSIDE pfx/include/smp-conduit/smp-seq.mak &&
            grep -qF -- "$odd" pfx2/include/smp-conduit/smp-seq.mak &&
            ! grep -q INSIDE pfx2/include/smp-conduit/smp-seq.mak
    )
    cleaned() (
        cd GASNet-2025.8.0 && make clean && [ -f "$(readlink -f smp-conduit/../build/release/include/gasnetex.h)" ] &&
            make distclean && make -s dist BUILD="$WORK/again" &&
            tar -tzf ../again/GASNet-2025.8.0.tar.gz | sort >../a && tar -tzf ../dist/GASNet-2025.8.0.tar.gz | sort |
            diff ../a -
    )
    attempt "dist: configured in place and elsewhere" configured
    attempt "dist: builds offline, in place" in_place
    attempt "dist: installs from both" installed
    # The site's defaults count for variables that are not set.
    for value in 'rsh -x $y' '-o "A b"' 7 "$WORK/other/hosts" mpi verbs:ofi_rxm 8192 32 7/16 8000; do
        has "the site's default is in the programs" "default: $value (site default)" env
    done
    says "a site's list of hosts" "this site has a list of hosts" pfx2/bin/gasnetrun_udp -v -n 2 -N 2 /bin/true
    says "a site's command" "start-here -n 2 /bin/true '*tag#1" pfx2/bin/gasnetrun_udp -n 2 -t -spawner=mpi /bin/true
    says "a site's spawner for ofi" "start-here -n 2 /bin/true '*tag#1" pfx2/bin/gasnetrun_ofi -n 2 -t /bin/true
    says "what a user says comes first" 'mine' env MPIRUN_CMD='mine %N %C' pfx2/bin/gasnetrun_udp -n 2 -t -spawner=mpi \
        /bin/true
    for mode in seq par; do
        printf 'include %s\nh: %s\n\t$(GASNET_CC) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS) -o $@ $< $(GASNET_LDFLAGS) $(GASNET_LIBS)\n' \
            "$WORK/GASNet-2025.8.0/smp-conduit/smp-$mode.mak" "$ROOT/examples/client/hello.c" >h.mk
        rm -f h
        attempt "dist: a client of the build tree, $mode" \
            sh -c 'make -s -f h.mk h && GASNet-2025.8.0/bin/gasnetrun_smp -n 2 ./h | grep -qi "hello from 2 ranks"'
    done
    attempt "dist: distclean leaves the release, which makes the same release" cleaned
else
    skip "dist: the offline build of a release runs in make check-all"
fi
finish
