# A client built with a makefile fragment, the usual way:
#   make -f fragment.mk GASNET_PREFIX=/opt/gasnet [CONDUIT=smp] [MODE=par]
CONDUIT = smp
MODE = par
prefix := $(GASNET_PREFIX)
include $(prefix)/include/$(CONDUIT)-conduit/$(CONDUIT)-$(MODE).mak

hello: hello.o
	$(GASNET_LD) $(GASNET_LDFLAGS) -o $@ $^ $(GASNET_LIBS)
%.o: %.c
	$(GASNET_CC) $(GASNET_CPPFLAGS) $(GASNET_CFLAGS) -c -o $@ $<
