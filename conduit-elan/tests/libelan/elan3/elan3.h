/* Stand-in for <elan3/elan3.h>: see ../README.md. */
#ifndef GASNET_STANDIN_ELAN3_ELAN3_H
#define GASNET_STANDIN_ELAN3_ELAN3_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C2 (GE, LA) */
typedef struct standin_elan3_ctx ELAN3_CTX;
typedef uint32_t E3_Addr;

/* C2 (GE, LA); value unknown */
#define ELAN_PERM_REMOTEALL 7

/* C2 (GE, LA); below 0: refused. The type of `size`: D */
int elan3_setperm(ELAN3_CTX *ctx, caddr_t main, E3_Addr elan, int size, int perm);
/* C2 (GE, LA); LA ignores the results */
int elan3_clearperm_main(ELAN3_CTX *ctx, caddr_t main, int size);
int elan3_clearperm_elan(ELAN3_CTX *ctx, E3_Addr elan, int size);

#ifdef __cplusplus
}
#endif

#endif
