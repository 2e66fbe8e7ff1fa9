// A C++14 client: the public headers in this language version, with warnings as errors.
// NP: 1 2
// TIMEOUT: 60
// FLAGS: -std=c++14 -pedantic
#include "client.h"
