// Further endpoints, whose memory neighbours reach by messages only.
// NP: 2 3
// TIMEOUT: 90
// ENV: GASNET_PSHM_KERNEL_COPY=0
#include "endpoints.c"
