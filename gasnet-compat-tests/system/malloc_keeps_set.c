// As malloc_keeps, where GASNET_DISABLE_MUNMAP asks for it: on every conduit.
// NP: 1 2
// ENV: GASNET_DISABLE_MUNMAP=1
// TIMEOUT: 60
#include "malloc_keeps.h"

int main(int argc, char **argv) { return malloc_keeps("malloc_keeps_set", argc, argv); }
