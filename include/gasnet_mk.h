// gasnet_mk.h: memory kinds of GASNet-EX: segments in the memory of devices (docs/memory-kinds.md).
// Classes that this library can serve are announced by gasnetex.h as GASNET_HAVE_MK_CLASS_*; it
// opens the vendor's library when the first kind is created.
#ifndef _GASNET_MK_H
#define _GASNET_MK_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { GEX_MK_CLASS_HOST, GEX_MK_CLASS_CUDA_UVA, GEX_MK_CLASS_HIP, GEX_MK_CLASS_ZE } gex_MK_Class_t;

// Set what is not used to zero. Device types are given by basic types, so that no vendor header is
// needed. May grow.
typedef struct {
    uint64_t gex_flags; // 0
    gex_MK_Class_t gex_class;
    union {
        struct {
            int gex_CUdevice; // a CUdevice
        } gex_class_cuda_uva;
        struct {
            int gex_hipDevice; // as in hipSetDevice
        } gex_class_hip;
        struct {
            void *gex_zeDevice;  // a ze_device_handle_t
            void *gex_zeContext; // a ze_context_handle_t
            uint32_t gex_zeMemoryOrdinal;
        } gex_class_ze;
        uint64_t gasneti_reserved[3];
    } gex_args;
} gex_MK_Create_args_t;

// GASNET_OK; GASNET_ERR_BAD_ARG, also for a class whose vendor library is missing;
// GASNET_ERR_RESOURCE where the library finds no device. Not collective.
extern int gex_MK_Create(gex_MK_t *kind_p, gex_Client_t client, const gex_MK_Create_args_t *args, gex_Flags_t flags);
// All its segments must be destroyed. Not collective.
extern void gex_MK_Destroy(gex_MK_t kind, gex_Flags_t flags);

#ifdef __cplusplus
}
#endif

#endif
