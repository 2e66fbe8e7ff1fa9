# other/amudp of a build tree: udp's launcher under the names that clients build it by (UPC++:
# amudprun; Chapel: amudprun-host, which it renames). Needs tree, the folder where configure ran. CC
# and other variables of the command line are for host compilers, which the launcher does not need.

.PHONY: all clean amudprun amudprun-host
all: amudprun
amudprun amudprun-host:
	+@MAKEFLAGS= $(MAKE) --no-print-directory -C '$(tree)' launcher
	@cp '$(tree)/bin/gasnetrun' $@.new && mv -f $@.new $@
clean:
	rm -f amudprun amudprun-host
