# Targets of a build tree, for its makefiles: config.mk, which configure wrote, comes first. The work is done by the makefile of the source tree.

ifdef prefix
PREFIX := $(prefix)
endif
DESTDIR ?=
UNIVERSAL ?= 1
export CONFIG_CFLAGS CONFIG_CXXFLAGS CONFIG_LDFLAGS CONFIGURE_ARGS

# As seen from this folder, whatever folder the work is done in.
override PREFIX := $(abspath $(PREFIX))
override DESTDIR := $(abspath $(DESTDIR))

source = +@$(LOCKED) $(MAKE) --no-print-directory -C '$(SRCDIR)' CONDUITS='$(CONDUITS)' UNIVERSAL='$(UNIVERSAL)' DEBUG='$(DEBUG)' SEGMENT='$(SEGMENT)' BUILD='$(BUILD)' \
	CC='$(CC)' CXX='$(CXX)' CONFIG_CFLAGS='$(CONFIG_CFLAGS)' CONFIG_CXXFLAGS='$(CONFIG_CXXFLAGS)' CONFIG_LDFLAGS='$(CONFIG_LDFLAGS)'
# Two makes at a time would write the same files: one waits for the other.
LOCKED := mkdir -p '$(BUILD)' && $(shell command -v flock && echo "'$(BUILD)/.lock'")
tree := $(patsubst %/build,%,$(BUILD))

.PHONY: all seq parsync par install uninstall check clean distclean
all:
	$(source) MODES='$(MODES)' all
seq parsync par:
	$(source) MODES=$@ UNIVERSAL=0 all
install:
	$(source) MODES='$(MODES)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' install
uninstall:
	$(source) PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' uninstall
check: $(addprefix run-tests-,$(MODES))
clean:
	rm -rf '$(BUILD)' $(foreach c,$(CONDUITS),$(foreach t,$(tests),'$(tree)/$c-conduit/$t'))
	@BUILD_TREE='$(tree)' '$(SRCDIR)/scripts/build-tree.sh'
distclean:
	rm -rf '$(BUILD)' $(foreach c,$(CONDUITS),'$(tree)/$c-conduit' '$(tree)/bin/gasnetrun_$c') '$(tree)/bin/gasnetrun' '$(tree)/bin/ident'
	cd '$(tree)' && rm -f gasnet_config.h gasnet.mak gasnet_tools-*.mak $(addprefix config.,mk status substitutions arguments)
	@[ '$(tree)' = '$(SRCDIR)' ] || rm -f '$(tree)/Makefile'
	@for name in include lib; do [ ! -L '$(tree)'/$$name ] || rm -f '$(tree)'/$$name; done
	@rmdir '$(tree)/bin' 2>/dev/null || :

include $(SRCDIR)/scripts/build-tests.mk

# Fragments are written by configure.
%.mak: ;
