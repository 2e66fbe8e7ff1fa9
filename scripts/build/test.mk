# One program of gasnet-compat-tests/smoke, TEST, compiled as OUT for CONDUIT and MODE as a client's
# makefile does it: by the fragments in FRAGMENTS. testtools is a program of the tools alone. Called
# by tests.mk.
include $(FRAGMENTS)/$(CONDUIT)-conduit/$(CONDUIT)-$(MODE).mak
include $(FRAGMENTS)/gasnet_tools-$(if $(filter seq,$(MODE)),seq,par).mak
source := '$(SRCDIR)/gasnet-compat-tests/smoke/$(TEST).c'
common := -I'$(SRCDIR)/gasnet-compat-tests/common'

.PHONY: compile
compile:
ifeq ($(TEST),testtools)
	$(GASNETTOOLS_CC) $(GASNETTOOLS_CPPFLAGS) $(GASNETTOOLS_CFLAGS) -o '$(OUT)' $(source) \
		$(GASNETTOOLS_LDFLAGS) $(GASNETTOOLS_LIBS)
else
	$(GASNET_CC) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS) $(common) -o '$(OUT)' $(source) $(GASNET_LDFLAGS) $(GASNET_LIBS)
endif
