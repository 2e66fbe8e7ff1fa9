# A client built with pkg-config:
#   PKG_CONFIG_PATH=/opt/gasnet/lib/pkgconfig make -f pkg-config.mk [LIBRARY=gasnet-smp-par]
# LIBRARY=gasnet-smp-par-shared links with the shared library, LIBRARY=gasnet with the universal
# one.
LIBRARY = gasnet-smp-par
PKG_CONFIG = pkg-config

hello: hello.c
	$(CC) $(CFLAGS) $(shell $(PKG_CONFIG) --cflags $(LIBRARY)) -o $@ $< $(LDFLAGS) $(shell $(PKG_CONFIG) --libs $(LIBRARY))
