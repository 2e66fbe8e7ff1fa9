// gasnet.h: the GASNet-1 interface (specification 1.8) on top of GASNet-EX.
//
// A process that calls any of these functions was initialised by gasnet_init and gasnet_attach, or
// by gex_Client_Init with GEX_FLAG_USES_GASNET1. What a pure GASNet-EX client may call as well
// (polling, exit, barrier, queries) is in gasnetex.h.
#ifndef _GASNET_H
#define _GASNET_H 1
#define _INCLUDED_GASNET_H 1 // the name that test programs and clients of the reference ask for

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- Types and constants --------------------------------------------------------------------------

typedef gex_AM_Index_t gasnet_handler_t;
typedef gex_AM_Arg_t gasnet_handlerarg_t;
typedef gex_Token_t gasnet_token_t;
typedef gex_Event_t gasnet_handle_t;
typedef gex_RMA_Value_t gasnet_register_value_t;
typedef struct gasneti_valget_s *gasnet_valget_handle_t;
typedef gex_HSL_t gasnet_hsl_t;

typedef struct {
    gasnet_handler_t index; // 0: the library chooses and writes it here
    gex_AM_Fn_t fnptr;
} gasnet_handlerentry_t;

#define SIZEOF_GASNET_REGISTER_VALUE_T SIZEOF_GEX_RMA_VALUE_T
#define GASNET_INVALID_HANDLE GEX_EVENT_INVALID
#define GASNET_HSL_INITIALIZER GEX_HSL_INITIALIZER

// -- Start ----------------------------------------------------------------------------------------

// Results of these and of all int functions below that say nothing else: GASNET_OK or GASNET_ERR_*.
extern int gasnet_init(int *argc, char ***argv);
// Collective. segsize: bytes, a multiple of GASNET_PAGESIZE. minheapoffset is ignored.
extern int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize, uintptr_t minheapoffset);
// Pointers may be NULL.
extern void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p,
                                   gex_Segment_t *segment_p);

#ifndef GASNETI_BUILDING_LIBRARY
extern int gasneti_init_checked(const struct gasneti_build_info *client, int *argc, char ***argv);

static __inline__ int gasneti_inl_init(int *argc, char ***argv) {
    const struct gasneti_build_info info = gasneti_this_build();
    return gasneti_init_checked(&info, argc, argv);
}
#define gasnet_init(...) gasneti_inl_init(__VA_ARGS__)
#endif

// -- Active Messages ------------------------------------------------------------------------------

extern size_t gasnet_AMMaxArgs(void);
extern size_t gasnet_AMMaxMedium(void);      // bytes
extern size_t gasnet_AMMaxLongRequest(void); // bytes
extern size_t gasnet_AMMaxLongReply(void);   // bytes
extern int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *srcindex);

// The source of every payload may be reused at return, that of LongAsync included.
#define GASNETI_AM_GASNET1(N)                                                                                      \
    extern int gasnet_AMRequestShort##N(gasnet_node_t dest, gasnet_handler_t handler GASNETI_AM_ARGS_##N);         \
    extern int gasnet_AMRequestMedium##N(gasnet_node_t dest, gasnet_handler_t handler, const void *source_addr,    \
                                         size_t nbytes GASNETI_AM_ARGS_##N);                                       \
    extern int gasnet_AMRequestLong##N(gasnet_node_t dest, gasnet_handler_t handler, const void *source_addr,      \
                                       size_t nbytes, void *dest_addr GASNETI_AM_ARGS_##N);                        \
    extern int gasnet_AMRequestLongAsync##N(gasnet_node_t dest, gasnet_handler_t handler, const void *source_addr, \
                                            size_t nbytes, void *dest_addr GASNETI_AM_ARGS_##N);                   \
    extern int gasnet_AMReplyShort##N(gasnet_token_t token, gasnet_handler_t handler GASNETI_AM_ARGS_##N);         \
    extern int gasnet_AMReplyMedium##N(gasnet_token_t token, gasnet_handler_t handler, const void *source_addr,    \
                                       size_t nbytes GASNETI_AM_ARGS_##N);                                         \
    extern int gasnet_AMReplyLong##N(gasnet_token_t token, gasnet_handler_t handler, const void *source_addr,      \
                                     size_t nbytes, void *dest_addr GASNETI_AM_ARGS_##N);
GASNETI_AM_EACH_COUNT(GASNETI_AM_GASNET1)
#undef GASNETI_AM_GASNET1

// -- Handler-safe locks ---------------------------------------------------------------------------

extern void gasnet_hsl_init(gasnet_hsl_t *hsl);
extern void gasnet_hsl_destroy(gasnet_hsl_t *hsl);
extern void gasnet_hsl_lock(gasnet_hsl_t *hsl);
extern void gasnet_hsl_unlock(gasnet_hsl_t *hsl);
extern int gasnet_hsl_trylock(gasnet_hsl_t *hsl); // GASNET_OK, or GASNET_ERR_NOT_READY when it is held

// -- Blocking transfers ---------------------------------------------------------------------------

extern void gasnet_get(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern void gasnet_put(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern void gasnet_get_bulk(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern void gasnet_put_bulk(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern void gasnet_memset(gasnet_node_t node, void *dest, int val, size_t nbytes);
extern gasnet_register_value_t gasnet_get_val(gasnet_node_t node, void *src, size_t nbytes);
extern void gasnet_put_val(gasnet_node_t node, void *dest, gasnet_register_value_t value, size_t nbytes);

// -- Transfers with a handle ----------------------------------------------------------------------

// The source of a _bulk put must stay until the sync, that of the others may be reused at return.
extern gasnet_handle_t gasnet_get_nb(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern gasnet_handle_t gasnet_put_nb(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern gasnet_handle_t gasnet_get_nb_bulk(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern gasnet_handle_t gasnet_put_nb_bulk(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void *dest, int val, size_t nbytes);
extern gasnet_handle_t gasnet_put_nb_val(gasnet_node_t node, void *dest, gasnet_register_value_t value, size_t nbytes);
extern gasnet_valget_handle_t gasnet_get_nb_val(gasnet_node_t node, void *src, size_t nbytes);
extern gasnet_register_value_t gasnet_wait_syncnb_valget(gasnet_valget_handle_t handle);

// try: polls once; GASNET_OK, or GASNET_ERR_NOT_READY.
extern void gasnet_wait_syncnb(gasnet_handle_t handle);
extern int gasnet_try_syncnb(gasnet_handle_t handle);
extern void gasnet_wait_syncnb_all(gasnet_handle_t *handles, size_t numhandles);
extern int gasnet_try_syncnb_all(gasnet_handle_t *handles, size_t numhandles);
extern void gasnet_wait_syncnb_some(gasnet_handle_t *handles, size_t numhandles);
extern int gasnet_try_syncnb_some(gasnet_handle_t *handles, size_t numhandles);

// -- Transfers without a handle -------------------------------------------------------------------

extern void gasnet_get_nbi(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern void gasnet_put_nbi(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern void gasnet_get_nbi_bulk(void *dest, gasnet_node_t node, void *src, size_t nbytes);
extern void gasnet_put_nbi_bulk(gasnet_node_t node, void *dest, const void *src, size_t nbytes);
extern void gasnet_memset_nbi(gasnet_node_t node, void *dest, int val, size_t nbytes);
extern void gasnet_put_nbi_val(gasnet_node_t node, void *dest, gasnet_register_value_t value, size_t nbytes);

extern void gasnet_wait_syncnbi_gets(void);
extern void gasnet_wait_syncnbi_puts(void);
extern void gasnet_wait_syncnbi_all(void);
extern int gasnet_try_syncnbi_gets(void);
extern int gasnet_try_syncnbi_puts(void);
extern int gasnet_try_syncnbi_all(void);

extern void gasnet_begin_nbi_accessregion(void);
extern gasnet_handle_t gasnet_end_nbi_accessregion(void);

#ifdef __cplusplus
}
#endif

#endif
