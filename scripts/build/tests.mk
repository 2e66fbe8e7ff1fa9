# Test programs of a build tree, by the names that the reference's README gives and that packagers
# use: testXXX (SEQ), testXXX-MODE, tests-MODE, run-tests (what is built there already) [TESTS="…"]
# [NP=4], run-tests-MODE, and tests-installed-MODE, run-tests-installed-MODE with the installed
# library. The programs are ours, of gasnet-compat-tests/smoke, and are put into the conduits'
# folders. Included by the makefiles of a build tree; needs SRCDIR, CONDUITS, MODES, PREFIX, and
# tree, the folder where configure ran.

tests := $(basename $(notdir $(wildcard $(SRCDIR)/gasnet-compat-tests/smoke/*.c)))
TESTS ?= $(tests)
NP ?= 4

# $(call build_tests,NAMES,MODE,FRAGMENTS): compiles the programs for every conduit with the
# fragments in a build tree or an installation.
build_tests = +@for c in $(CONDUITS); do for t in $(1); do \
	$(MAKE) -s --no-print-directory -f '$(SRCDIR)/scripts/build/test.mk' SRCDIR='$(SRCDIR)' FRAGMENTS='$(3)' \
	CONDUIT=$$c MODE=$(2) TEST=$$t OUT='$(tree)'/$$c-conduit/$$t || exit 1; \
	echo "  test $$c-conduit/$$t ($(2))"; done; done

define mode_rules
.PHONY: tests-$(1) run-tests-$(1) tests-installed-$(1) run-tests-installed-$(1) $(addsuffix -$(1),$(tests))
$(addsuffix -$(1),$(tests)): %-$(1): $(1)
	$$(call build_tests,$$*,$(1),$$(tree))
tests-$(1): $(addsuffix -$(1),$(tests))
tests-installed-$(1):
	$$(call build_tests,$$(tests),$(1),$$(PREFIX)/include)
run-tests-$(1): tests-$(1)
	+@$$(MAKE) --no-print-directory run-tests
run-tests-installed-$(1): tests-installed-$(1)
	+@$$(MAKE) --no-print-directory run-tests
endef
$(foreach m,$(MODES),$(eval $(call mode_rules,$m)))

.PHONY: $(tests) run-tests
$(tests): %: %-seq
run-tests:
	@'$(SRCDIR)/scripts/build/run-tests.sh' '$(tree)' '$(CONDUITS)' '$(TESTS)' '$(NP)'
