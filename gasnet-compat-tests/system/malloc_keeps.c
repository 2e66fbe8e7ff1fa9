// In a job that uses a network malloc keeps what the client frees: the same blocks again cause no
// page faults. GASNET_DISABLE_MUNMAP=0 restores the C library's rules.
// NP: 1 2
// TIMEOUT: 60
#include "malloc_keeps.h"

int main(int argc, char **argv) { return malloc_keeps("malloc_keeps", argc, argv); }
