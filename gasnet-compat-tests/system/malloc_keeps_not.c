// As malloc_keeps, where GASNET_DISABLE_MUNMAP forbids it.
// NP: 1 2
// ENV: GASNET_DISABLE_MUNMAP=0
// TIMEOUT: 60
#include "malloc_keeps.h"

int main(int argc, char **argv) { return malloc_keeps("malloc_keeps_not", argc, argv); }
