# Targets of a build tree, for its makefiles: config.mk, which configure wrote, comes first. The
# work is done by the makefile of the source tree.

ifdef prefix
PREFIX := $(prefix)
endif
DESTDIR ?=
UNIVERSAL ?= 1
# Values that may have quotes are passed in the environment. The source tree's own config.mk, from
# configuring in place, is ignored.
CONFIGURED := 1
export CC CXX CROSS CONFIG_CFLAGS CONFIG_CXXFLAGS CONFIG_LDFLAGS CONFIGURE_ARGS CONFIGURED
export DEFAULT_PMI DEFAULT_CSPAWN_CMD
export DEFAULT_SSH_CMD DEFAULT_SSH_OPTIONS DEFAULT_SSH_NODEFILE DEFAULT_SSH_OUT_DEGREE
export DEFAULT_MAX_SEGSIZE DEFAULT_SUPERNODE_MAXSIZE DEFAULT_MPIRUN_CMD DEFAULT_PMIRUN_CMD
export DEFAULT_IBV_SPAWNER DEFAULT_IBV_PORTS DEFAULT_IBV_MAX_MEDIUM DEFAULT_PHYSMEM_MAX DEFAULT_USE_FENCED_PUTS
export DEFAULT_IBV_MAX_HCAS DEFAULT_PHYSMEM_PROBE DEFAULT_USE_SRQ DEFAULT_USE_XRC DEFAULT_USE_ODP DEFAULT_IBV_ATOMICS
export DEFAULT_OFI_SPAWNER DEFAULT_OFI_PROVIDER_INCLUDE DEFAULT_OFI_MAX_MEDIUM DEFAULT_OFI_NUM_COMPLETIONS
export DEFAULT_UCX_SPAWNER DEFAULT_UCX_MAX_MEDIUM
export DEFAULT_GNI_SPAWNER DEFAULT_GNI_MAX_MEDIUM DEFAULT_USE_UDREG DEFAULT_ELAN_SPAWNER

# Make splits names at spaces.
$(if $(word 2,$(PREFIX)),$(error the prefix must not have spaces in its name: $(PREFIX)))
$(if $(word 2,$(DESTDIR)),$(error DESTDIR must not have spaces in its name: $(DESTDIR)))
# Relative to this folder, whatever folder make runs in.
override PREFIX := $(abspath $(PREFIX))
override DESTDIR := $(abspath $(DESTDIR))

source = +@$(LOCKED) $(MAKE) --no-print-directory -C '$(SRCDIR)' CONDUITS='$(CONDUITS)' \
	UNIVERSAL='$(UNIVERSAL)' DEBUG='$(DEBUG)' SEGMENT='$(SEGMENT)' BUILD='$(BUILD)'
# Concurrent makes would write the same files, so one waits for the other.
LOCKED := mkdir -p '$(BUILD)' && $(shell command -v flock && echo "'$(BUILD)/.lock'")
tree := $(patsubst %/build,%,$(BUILD))

.PHONY: all seq parsync par launcher install install-includeHEADERS uninstall check dist
all:
	$(source) MODES='$(MODES)' all
seq parsync par:
	$(source) MODES=$@ UNIVERSAL=0 all
launcher:
	$(source) CONDUITS= UNIVERSAL=0 launcher
install:
	$(source) MODES='$(MODES)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' install
# For clients that call the target of the headers by its name in the reference.
install-includeHEADERS: install
uninstall:
	$(source) PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' uninstall
check: $(addprefix run-tests-,$(MODES))
dist:
	$(source) dist

# A variable of this makefile, for clients' scripts: make echovar VARNAME=CONDUITS.
.PHONY: echovar
echovar:
	@echo '$(VARNAME)="$($(VARNAME))"'

include $(SRCDIR)/scripts/build/tests.mk
include $(SRCDIR)/scripts/build/clean.mk

# Fragments are written by configure.
%.mak: ;
