// gasnet_mk.h: memory kinds of GASNet-EX: segments in device memory. Classes that this library can serve are announced by
// gasnetex.h as GASNET_HAVE_MK_CLASS_*.
#ifndef _GASNET_MK_H
#define _GASNET_MK_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    GEX_MK_CLASS_HOST,
    GEX_MK_CLASS_CUDA_UVA,
    GEX_MK_CLASS_HIP,
    GEX_MK_CLASS_ZE
} gex_MK_Class_t;

// Set what is not used to zero. Device types are given by basic types, so that no vendor header is needed.
typedef struct {
    gex_Flags_t gex_flags; // 0
    gex_MK_Class_t gex_class;
    union {
        struct {
            int gex_CUdevice;
        } gex_class_cuda_uva;
        struct {
            int gex_hipDevice;
        } gex_class_hip;
        struct {
            void *gex_zeDevice;
            void *gex_zeContext;
            uint32_t gex_zeMemoryOrdinal;
        } gex_class_ze;
        uint64_t gasneti_reserved[4];
    } gex_args;
} gex_MK_Create_args_t;

// GASNET_OK or GASNET_ERR_*. Not collective.
extern int gex_MK_Create(gex_MK_t *kind_p, gex_Client_t client, const gex_MK_Create_args_t *args, gex_Flags_t flags);
extern void gex_MK_Destroy(gex_MK_t kind, gex_Flags_t flags);

#ifdef __cplusplus
}
#endif

#endif
