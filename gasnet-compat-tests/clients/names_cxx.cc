// names.c in C++.
// NP: 1 2
// TIMEOUT: 60
#include "names.c"
