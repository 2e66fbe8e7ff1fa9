# clean and distclean of a build tree. Included by its makefiles after tests.mk; needs SRCDIR,
# BUILD, CONDUITS, tests, and tree, the folder where configure ran.

.PHONY: clean distclean
# Keeps the files that clients read before the library is built.
clean:
	rm -rf '$(BUILD)' $(foreach c,$(CONDUITS),$(foreach t,$(tests),'$(tree)/$c-conduit/$t'))
	@BUILD_TREE='$(tree)' '$(SRCDIR)/scripts/build/tree.sh'
# Removes everything that configure or make wrote.
distclean:
	rm -rf '$(BUILD)' $(foreach c,$(CONDUITS),'$(tree)/$c-conduit' '$(tree)/bin/gasnetrun_$c') \
		'$(tree)/bin/gasnetrun_aries' '$(tree)/bin/gasnetrun_gemini' \
		'$(tree)/bin/gasnetrun' '$(tree)/bin/amudprun' '$(tree)/bin/ident' '$(tree)/other/amudp'
	cd '$(tree)' && rm -f gasnet_config.h gasnet.mak gasnet_tools-*.mak \
		$(addprefix config.,mk status substitutions arguments)
	@[ '$(tree)' = '$(SRCDIR)' ] || rm -f '$(tree)/Makefile'
	@for name in include lib; do [ ! -L '$(tree)'/$$name ] || rm -f '$(tree)'/$$name; done
	@rmdir '$(tree)/bin' '$(tree)/other' 2>/dev/null || :
