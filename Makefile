# libgasnet: build, install, test. The work is done by the scripts in scripts/; this file knows what
# depends on what.
#
#   make                  build the libraries, the tools and the launcher
#     CONDUITS="smp gni elan ibv ucx ofi udp mpi" MODES="seq parsync par" DEBUG=1
#     UNIVERSAL=0         without libgasnet, which holds all CONDUITS and chooses at start
#     PROGRAMS=0          without gasnetrun, gasnet_info and gasnet_trace
#     SEGMENT=fast|large|everything
#                         with this GASNet-1 segment configuration; each installation has one
#     DEFAULT_PMI= DEFAULT_CSPAWN_CMD=
#     DEFAULT_SSH_CMD= DEFAULT_SSH_OPTIONS= DEFAULT_SSH_NODEFILE= DEFAULT_SSH_OUT_DEGREE=
#     DEFAULT_MAX_SEGSIZE= DEFAULT_SUPERNODE_MAXSIZE= DEFAULT_MPIRUN_CMD= DEFAULT_PMIRUN_CMD=
#     DEFAULT_IBV_SPAWNER= DEFAULT_IBV_PORTS= DEFAULT_IBV_MAX_MEDIUM= DEFAULT_IBV_MAX_HCAS=
#     DEFAULT_IBV_ATOMICS= DEFAULT_PHYSMEM_MAX= DEFAULT_PHYSMEM_PROBE= DEFAULT_USE_FENCED_PUTS=
#     DEFAULT_USE_SRQ= DEFAULT_USE_XRC= DEFAULT_USE_ODP= DEFAULT_OFI_SPAWNER=
#     DEFAULT_OFI_PROVIDER_INCLUDE= DEFAULT_OFI_MAX_MEDIUM= DEFAULT_OFI_NUM_COMPLETIONS=
#     DEFAULT_UCX_SPAWNER= DEFAULT_UCX_MAX_MEDIUM= DEFAULT_GNI_SPAWNER= DEFAULT_GNI_MAX_MEDIUM=
#     DEFAULT_USE_UDREG= DEFAULT_ELAN_SPAWNER=
#                         values where GASNET_SSH_CMD and so on, MPIRUN_CMD and PMIRUN_CMD are not
#                         set
#   make install PREFIX=/opt/gasnet [DESTDIR=] [same variables]
#                         and install them (LIBDIR_SO=1: .so links in lib/ itself). After `make`,
#                         `sudo make install` with the same variables needs no Cargo. A universal
#                         library in the prefix that has more conduits stays
#   make install CROSS=aarch64-linux-gnu PREFIX=/opt/gasnet-arm64
#                         for another machine, by the tools with this prefix, or those that CC, CXX,
#                         LD, AR, NM, OBJCOPY, RANLIB and STRIP name (docs/install.md)
#   make uninstall PREFIX=/opt/gasnet [DESTDIR=]
#   make setup            install the Debian packages that make check needs and that are missing
#                         (needs root or sudo; does nothing when all are installed)
#   make cluster-setup    the same for several hosts: an ssh server, Slurm, MPI's launchers; make
#                         cluster-check shows that these work
#   make setup-rdma       the same for the virtual machine of scripts/rdma-vm; make check-rdma tests
#                         RDMA in it
#   make demo             setup, build, install into build/demo, run the heat solver on 4 ranks
#   make test             crates, and some programs over each conduit; T="ofi am job": the tests of
#                         a conduit, a family of programs, a crate. Installs nothing
#   make check            what CI runs; make check-all is everything. SETUP=0: installs nothing
#   make check-programs DIR=…
#     NP="1 2 3 4 7 16" CONDUIT=smp MODE=par FLAVOUR=release TESTS="a b" TIMEOUT=120
#     EXTRA="a=x.c" ARGS="a=1,2" ENV="NAME=value" CLOSING="a=pattern" SKIP="c"
#     EMULATOR="--link roce"
#                         MODE may be tools-par; PREFIX_USED=… takes an installation
#   make check-clients SRC=folder PREFIX=/opt/gasnet ONLY="upcxx caffeine" CONDUITS=udp RANKS=2
#                         unmodified clients on an installation, by the recipes of docs/clients.md,
#                         in WORK (build/clients); REFERENCE=1: PREFIX is one of the reference.
#                         WRITE=1: puts the results into the page
#   make emulators        build the emulated networks that scripts/with-emulator runs commands on
#   make bench            times of this library, and in turns of another one installed in
#     PEER_PREFIX=/opt/other CONDUIT=smp RANKS=2 RUNS=5 FIFO= PERF="options tests"
#     TABLE=1 CONDUIT="smp udp" PEER_RUN="gasnetrun_%c -n %n"
#                         PEER_PREFIX; TABLE=1: the usual tests of several conduits side by side;
#                         COUNT=1: their instructions (docs/performance.md)
#   make dist             a release, build/GASNet-VERSION.tar.gz, that builds offline
#   make fuzz [ROUNDS=5000000] [SEED=1] [MINUTES=10] [TARGETS="a b"]
#                         malformed input in greater numbers than in make check (docs/testing.md)
#   make soak MINUTES=60  steps of make check again and again beside busy loops; STEPS="c launch"
#   make lint             needs scripts/setup.sh lint
#   make mutants [MUTANTS=cargo]
#                         deliberate defects that tests must catch (docs/mutants.md)
#   make clean
#
# Clients that build GASNet themselves run ./configure, in this folder or another one, and make in
# that.

# The settings of a `configure` that ran in this very folder. A build tree elsewhere passes its own
# settings instead.
ifndef CONFIGURED
-include config.mk
endif
ifdef prefix
PREFIX := $(prefix)
endif
CONDUITS ?= $(shell scripts/build/conduits.sh)
MODES ?= seq parsync par
UNIVERSAL ?= 1
PROGRAMS ?= 1
DEBUG ?= 0
SEGMENT ?= fast
PREFIX ?= /usr/local
DESTDIR ?=
# Another machine, also if only Cargo's variable names it.
ifdef CARGO_BUILD_TARGET
CROSS ?= $(shell scripts/build/target.sh --machine $(CARGO_BUILD_TARGET))
endif
CROSS := $(CROSS)
BUILD ?= $(CURDIR)/build$(addprefix /,$(CROSS))

ifeq ($(origin CC),default)
CC := $(if $(CROSS),$(CROSS)-gcc,$(shell command -v gcc || command -v cc || echo gcc))
endif
ifeq ($(origin CXX),default)
CXX := $(if $(CROSS),$(CROSS)-g++,$(shell command -v g++ || command -v c++ || echo g++))
endif
# Make splits names at spaces: a place with one would be taken for two, also by `clean`.
ifneq ($(words $(CURDIR) $(BUILD)),2)
$(error the source folder and BUILD must not have spaces in their names: $(CURDIR), $(BUILD))
endif
override BUILD := $(abspath $(BUILD))
ifneq ($(origin FLAVOUR),command line)
FLAVOUR := $(if $(filter-out 0 no n,$(DEBUG)),debug,release)
endif
# The core and the programs serve every segment configuration; headers and libraries have one.
CORE := $(BUILD)/$(FLAVOUR)
B := $(CORE)$(if $(filter-out fast,$(SEGMENT)),-$(SEGMENT))

export CC CXX CROSS BUILD FLAVOUR SEGMENT CONDUITS MODES UNIVERSAL PROGRAMS PREFIX DESTDIR LIBDIR_SO
export CONFIG_CFLAGS CONFIG_CXXFLAGS CONFIG_LDFLAGS CONFIGURE_ARGS
export DEFAULT_PMI DEFAULT_CSPAWN_CMD
export DEFAULT_SSH_CMD DEFAULT_SSH_OPTIONS DEFAULT_SSH_NODEFILE DEFAULT_SSH_OUT_DEGREE
export DEFAULT_MAX_SEGSIZE DEFAULT_SUPERNODE_MAXSIZE DEFAULT_MPIRUN_CMD DEFAULT_PMIRUN_CMD
export DEFAULT_IBV_SPAWNER DEFAULT_IBV_PORTS DEFAULT_IBV_MAX_MEDIUM DEFAULT_PHYSMEM_MAX DEFAULT_USE_FENCED_PUTS
export DEFAULT_IBV_MAX_HCAS DEFAULT_PHYSMEM_PROBE DEFAULT_USE_SRQ DEFAULT_USE_XRC DEFAULT_USE_ODP DEFAULT_IBV_ATOMICS
export DEFAULT_OFI_SPAWNER DEFAULT_OFI_PROVIDER_INCLUDE DEFAULT_OFI_MAX_MEDIUM DEFAULT_OFI_NUM_COMPLETIONS
export DEFAULT_UCX_SPAWNER DEFAULT_UCX_MAX_MEDIUM
export DEFAULT_GNI_SPAWNER DEFAULT_GNI_MAX_MEDIUM DEFAULT_USE_UDREG DEFAULT_ELAN_SPAWNER

libraries := $(foreach c,$(CONDUITS),$(foreach m,$(MODES),$(B)/lib/libgasnet-$c-$m.a)) \
	$(foreach m,seq par,$(B)/lib/libgasnet_tools-$m.a) \
	$(if $(filter 1,$(UNIVERSAL)),$(B)/lib/libgasnet.a)
lists := $(wildcard libraries/exports/*.txt base/tools/exports.txt)
packaging := scripts/build/package-lib.sh scripts/build/exports.sh scripts/common.sh $(lists) \
	$(wildcard libraries/marker/*.c) Cargo.toml
fragments := $(wildcard pkgconfig/*.in)
clients := $(B)/bin/gasnet_perf $(B)/bin/gasnet_selftest $(B)/bin/gasnet_replay

.PHONY: all seq parsync par launcher headers setup cluster-setup cluster-check setup-rdma check-rdma demo test check \
	check-all check-clients check-programs emulators bench lint soak mutants fuzz install install-includeHEADERS \
	uninstall dist clean FORCE
.DELETE_ON_ERROR:

all: $(libraries) $(if $(filter 1,$(PROGRAMS)),$(CORE)/core/gasnetrun) \
	$(if $(filter 1,$(UNIVERSAL)),$(clients))

# Cargo and build/headers.sh know themselves what is out of date, and leave the time of an unchanged
# file alone.
FORCE:
headers: $(B)/include/.stamp
$(B)/include/.stamp: FORCE
	@scripts/build/headers.sh $(CONDUITS)
	@if [ ! -f $@ ] || [ -n "$$(find $(B)/include -newer $@ -name '*.h' | head -n 1)" ]; then touch $@; fi
$(CORE)/core/tools.a: FORCE
	@scripts/build/core.sh tools
$(CORE)/core/gasnetrun: FORCE
	@scripts/build/core.sh launcher
# One call for all of them, which a pattern with several targets is in every make.
cores := $(CONDUITS) $(if $(filter 1,$(UNIVERSAL)),any)
ifneq ($(cores),)
$(foreach c,$(cores),$(BUILD)/%/core/$c.a): FORCE
	@scripts/build/core.sh conduits
endif

launcher: $(CORE)/core/gasnetrun

# One after the other: Cargo uses all cores and locks its folder.
$(CORE)/core/tools.a: | $(foreach c,$(cores),$(CORE)/core/$c.a)
$(CORE)/core/gasnetrun: | $(CORE)/core/tools.a

define library_rule
$$(B)/lib/libgasnet-$(1)-$(2).a: $$(CORE)/core/$(1).a $$(B)/include/.stamp $$(packaging)
	@echo "  package gasnet-$(1)-$(2) ($$(notdir $$(B)))"
	@scripts/build/package-lib.sh $(1) $(2)
endef
$(foreach c,$(CONDUITS),$(foreach m,$(MODES),$(eval $(call library_rule,$c,$m))))

# The universal library serves all thread modes.
$(B)/lib/libgasnet.a: $(CORE)/core/any.a $(B)/include/.stamp $(packaging)
	@echo "  package gasnet ($(notdir $(B))): $(CONDUITS)"
	@scripts/build/package-lib.sh any par

$(B)/bin/gasnet_perf: $(wildcard programs/perf/* programs/page/*)
$(B)/bin/gasnet_selftest: $(wildcard programs/selftest/*)
$(B)/bin/gasnet_replay: $(wildcard programs/replay/*)
$(clients): $(B)/bin/gasnet_%: $(B)/lib/libgasnet.a scripts/build/client.sh
	@scripts/build/client.sh $*

$(B)/lib/libgasnet_tools-%.a: $(CORE)/core/tools.a $(B)/include/.stamp $(packaging)
	@echo "  package gasnet_tools-$* ($(notdir $(B)))"
	@scripts/build/package-lib.sh tools $*

# One thread mode; beside another target whatever that builds.
ifneq ($(filter all install install-includeHEADERS check,$(MAKECMDGOALS)),)
seq parsync par: all
else
seq parsync par:
	+@mkdir -p '$(BUILD)' && $(shell command -v flock && echo "'$(BUILD)/.lock'") \
	  $(MAKE) --no-print-directory MODES=$@ UNIVERSAL=0 all
endif

install: export INSTALLING := 1
install: all $(fragments)
	@scripts/install/install.sh
	@echo "  installed in $(DESTDIR)$(PREFIX)"
install-includeHEADERS: install

uninstall:
	@scripts/install/uninstall.sh

setup:
	@scripts/setup.sh

cluster-setup:
	@scripts/setup.sh cluster

cluster-check:
	@. scripts/pytest.sh && ROOT=$(CURDIR) tests -c cluster/selftest/pytest.ini cluster/selftest

setup-rdma:
	@scripts/setup.sh build rdma

check-rdma: setup-rdma
	@scripts/check.sh all rdma

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh $(T)

check: setup
	@scripts/setup.sh cluster || echo 'check: without these packages the step launch is skipped'
	@scripts/check.sh quick

check-all:
	@scripts/setup.sh all cluster
	@scripts/setup.sh rdma || echo 'check: without these packages the step rdma is skipped'
	@scripts/check.sh all

check-clients:
	@scripts/docs/clients.py '$(SRC)' $(if $(ONLY),--only $(ONLY)) --prefix '$(PREFIX)' $(if $(RANKS),--ranks $(RANKS)) \
	  $(if $(filter-out file,$(origin CONDUITS)),--conduits $(CONDUITS)) --work '$(or $(WORK),$(BUILD)/clients)' \
	  $(if $(REFERENCE),--reference) $(if $(WRITE),--write)

check-programs: setup
	@DIR='$(DIR)' NP='$(NP)' CONDUIT='$(CONDUIT)' MODE='$(MODE)' TESTS='$(TESTS)' SKIP='$(SKIP)' TIMEOUT='$(TIMEOUT)' \
	  EXTRA='$(EXTRA)' DONE='$(DONE)' CLOSING='$(CLOSING)' ARGS='$(ARGS)' ENV='$(ENV)' EMULATOR='$(EMULATOR)' \
	  scripts/check/programs.sh

emulators:
	@CARGO_TARGET_DIR='$(BUILD)/emulators/target' emulators/verbs/build.sh '$(BUILD)/emulators/verbs'
	@CARGO_TARGET_DIR='$(BUILD)/emulators/target' emulators/ugni/build.sh '$(BUILD)/emulators/ugni'
	@CARGO_TARGET_DIR='$(BUILD)/emulators/target' emulators/elan/build.sh '$(BUILD)/emulators/elan'
	@CARGO_TARGET_DIR='$(BUILD)/emulators/target' emulators/pmi/build.sh '$(BUILD)/emulators/pmi'
	@echo "  emulators in $(BUILD)/emulators; scripts/with-emulator runs commands on them"

bench:
	@PEER_PREFIX='$(PEER_PREFIX)' RANKS='$(RANKS)' RUNS='$(RUNS)' FIFO='$(FIFO)' PERF='$(PERF)' \
	  CONDUIT='$(CONDUIT)' TABLE='$(TABLE)' COUNT='$(COUNT)' PEER_RUN='$(PEER_RUN)' scripts/bench.sh

lint:
	@scripts/lint.sh

soak:
	@MINUTES='$(MINUTES)' STEPS='$(STEPS)' scripts/soak.sh

mutants:
	@scripts/check/mutants.sh

fuzz:
	@ROUNDS='$(ROUNDS)' SEED='$(SEED)' MINUTES='$(MINUTES)' TARGETS='$(TARGETS)' scripts/check/fuzz.sh

dist:
	@scripts/build/dist.sh

# Where `configure` ran here, this is a build tree with test programs, too.
ifdef SRCDIR
tree := $(CURDIR)
include scripts/build/tests.mk
include scripts/build/clean.mk
else
clean:
	rm -rf -- '$(BUILD)'
endif
