/* The header of UCP from which bindings.rs is made (scripts/build/ucx-bindings.sh). */
#include <ucp/api/ucp.h>
