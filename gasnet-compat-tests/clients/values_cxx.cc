// values.c in C++.
// NP: 1
// CONDUITS: smp
#include "values.c"
