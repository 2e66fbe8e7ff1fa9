/* gni_pub.h: the public interface of Cray's uGNI for programs that run on the emulator, and for
 * those that are compiled for real hardware without its headers. Written for this project from
 * published facts (GNI 0x5d); nothing of a vendor's header is in it. */
#ifndef GNI_PUB_H
#define GNI_PUB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface: 8 bits for hardware, 8 for the API, 16 for the library's code. */
#define GNI_MAJOR_REV 0x00
#define GNI_MINOR_REV 0x5d
#define GNI_CODE_REV 0x0102
#define GNI_GET_MAJOR(value) (((value) >> 24) & 0xff)
#define GNI_GET_MINOR(value) (((value) >> 16) & 0xff)
#define GNI_GET_REV(value) ((value)&0xffff)
#define GNI_VERSION_CHECK(major, minor, code) ((major) << 24 | (minor) << 16 | (code))
#define GNI_VERSION GNI_VERSION_CHECK(GNI_MAJOR_REV, GNI_MINOR_REV, GNI_CODE_REV)
/* The first versions that have a feature. */
#define GNI_VERSION_FMA_SHARING 0x5b0000
#define GNI_VERSION_FMA_CHAIN_TRANSACTIONS 0x5d0000

/* Directions of parameters. */
#define IN
#define OUT
#define INOUT

/* Objects of the library, and their handles. */
typedef struct gni_cdm *gni_cdm_handle_t;
typedef struct gni_nic *gni_nic_handle_t;
typedef struct gni_ep *gni_ep_handle_t;
typedef struct gni_cq *gni_cq_handle_t;
typedef struct gni_ce *gni_ce_handle_t;
typedef struct gni_comp_chan *gni_comp_chan_handle_t;

typedef uint32_t gni_cq_mode_t;
typedef uint64_t gni_cq_entry_t;

/* Return codes. */
typedef enum gni_return {
    GNI_RC_SUCCESS = 0,
    GNI_RC_NOT_DONE = 1,
    GNI_RC_INVALID_PARAM = 2,
    GNI_RC_ERROR_RESOURCE = 3,
    GNI_RC_TIMEOUT = 4,
    GNI_RC_PERMISSION_ERROR = 5,
    GNI_RC_DESCRIPTOR_ERROR = 6,
    GNI_RC_ALIGNMENT_ERROR = 7,
    GNI_RC_INVALID_STATE = 8,
    GNI_RC_NO_MATCH = 9,
    GNI_RC_SIZE_ERROR = 10,
    GNI_RC_TRANSACTION_ERROR = 11,
    GNI_RC_ILLEGAL_OP = 12,
    GNI_RC_ERROR_NOMEM = 13
} gni_return_t;

extern const char *gni_err_str[];

typedef enum gni_nic_device {
    GNI_DEVICE_GEMINI = 0,
    GNI_DEVICE_ARIES = 1,
    GNI_DEVICE_PISCES = 2,
    GNI_DEVICE_LAST = 3
} gni_nic_device_t;

/* Types of operations. */
typedef enum gni_post_type {
    GNI_POST_RDMA_PUT = 1,
    GNI_POST_RDMA_GET = 2,
    GNI_POST_FMA_PUT = 3,
    GNI_POST_FMA_PUT_W_SYNCFLAG = 4,
    GNI_POST_FMA_GET = 5,
    GNI_POST_AMO = 6,
    GNI_POST_CQWRITE = 7,
    GNI_POST_CE = 8,
    GNI_POST_FMA_GET_W_FLAG = 9,
    GNI_POST_AMO_W_FLAG = 10
} gni_post_type_t;

/* States of datagrams. */
typedef enum gni_post_state {
    GNI_POST_PENDING = 0,
    GNI_POST_COMPLETED = 1,
    GNI_POST_ERROR = 2,
    GNI_POST_TIMEOUT = 3,
    GNI_POST_TERMINATED = 4,
    GNI_POST_REMOTE_DATA = 5
} gni_post_state_t;

typedef enum gni_job_res {
    GNI_JOB_RES_FIRST = 0,
    GNI_JOB_RES_MDD = 1,
    GNI_JOB_RES_MRT = 2,
    GNI_JOB_RES_IOMMU = 3,
    GNI_JOB_RES_GART = 4,
    GNI_JOB_RES_CQ = 5,
    GNI_JOB_RES_FMA = 6,
    GNI_JOB_RES_RDMA = 7,
    GNI_JOB_RES_CE = 8,
    GNI_JOB_RES_DLA = 9,
    GNI_JOB_RES_SFMA = 10,
    GNI_JOB_RES_DIRECT = 11,
    GNI_JOB_RES_PCI_IOMMU = 12,
    GNI_JOB_RES_NONVMDH = 13,
    GNI_JOB_RES_LAST = 14
} gni_job_res_t;

typedef enum gni_dev_res {
    GNI_DEV_RES_FIRST = 0,
    GNI_DEV_RES_MDD = 1,
    GNI_DEV_RES_MRT = 2,
    GNI_DEV_RES_CQ = 3,
    GNI_DEV_RES_FMA = 4,
    GNI_DEV_RES_CE = 5,
    GNI_DEV_RES_DLA = 6,
    GNI_DEV_RES_TCR = 7,
    GNI_DEV_RES_DVA = 8,
    GNI_DEV_RES_LAST = 9
} gni_dev_res_t;

/* Names of resources. */
const char *gni_job_res_to_str(gni_job_res_t);
const char *gni_dev_res_to_str(gni_dev_res_t);

typedef enum gni_smsg_type {
    GNI_SMSG_TYPE_INVALID = 0,
    GNI_SMSG_TYPE_MBOX = 1,
    GNI_SMSG_TYPE_MBOX_AUTO_RETRANSMIT = 2
} gni_smsg_type_t;

/* Atomics: first generation (Gemini and Aries), then second (Aries). S: 32 bits; C: cached. */
typedef enum gni_fma_cmd_type {
    GNI_FMA_ATOMIC_FADD = 0x8,
    GNI_FMA_ATOMIC_FADD_C = 0x18,
    GNI_FMA_ATOMIC_ADD = 0x108,
    GNI_FMA_ATOMIC_ADD_C = 0x118,
    GNI_FMA_ATOMIC_FAND = 0x9,
    GNI_FMA_ATOMIC_FAND_C = 0x19,
    GNI_FMA_ATOMIC_AND = 0x109,
    GNI_FMA_ATOMIC_AND_C = 0x119,
    GNI_FMA_ATOMIC_FOR = 0xa,
    GNI_FMA_ATOMIC_FOR_C = 0x1a,
    GNI_FMA_ATOMIC_OR = 0x10a,
    GNI_FMA_ATOMIC_OR_C = 0x11a,
    GNI_FMA_ATOMIC_FXOR = 0xb,
    GNI_FMA_ATOMIC_FXOR_C = 0x1b,
    GNI_FMA_ATOMIC_XOR = 0x10b,
    GNI_FMA_ATOMIC_XOR_C = 0x11b,
    GNI_FMA_ATOMIC_FAX = 0xc,
    GNI_FMA_ATOMIC_FAX_C = 0x1c,
    GNI_FMA_ATOMIC_AX = 0x10c,
    GNI_FMA_ATOMIC_AX_C = 0x11c,
    GNI_FMA_ATOMIC_CSWAP = 0xd,
    GNI_FMA_ATOMIC_CSWAP_C = 0x1d,
    GNI_FMA_ATOMIC2_FAND = 0x41,
    GNI_FMA_ATOMIC2_FAND_S = 0x240,
    GNI_FMA_ATOMIC2_FAND_C = 0x61,
    GNI_FMA_ATOMIC2_FAND_SC = 0x260,
    GNI_FMA_ATOMIC2_AND = 0x141,
    GNI_FMA_ATOMIC2_AND_S = 0x340,
    GNI_FMA_ATOMIC2_AND_C = 0x161,
    GNI_FMA_ATOMIC2_AND_SC = 0x360,
    GNI_FMA_ATOMIC2_FOR = 0x43,
    GNI_FMA_ATOMIC2_FOR_S = 0x242,
    GNI_FMA_ATOMIC2_FOR_C = 0x63,
    GNI_FMA_ATOMIC2_FOR_SC = 0x262,
    GNI_FMA_ATOMIC2_OR = 0x143,
    GNI_FMA_ATOMIC2_OR_S = 0x342,
    GNI_FMA_ATOMIC2_OR_C = 0x163,
    GNI_FMA_ATOMIC2_OR_SC = 0x362,
    GNI_FMA_ATOMIC2_FXOR = 0x45,
    GNI_FMA_ATOMIC2_FXOR_S = 0x244,
    GNI_FMA_ATOMIC2_FXOR_C = 0x65,
    GNI_FMA_ATOMIC2_FXOR_SC = 0x264,
    GNI_FMA_ATOMIC2_XOR = 0x145,
    GNI_FMA_ATOMIC2_XOR_S = 0x344,
    GNI_FMA_ATOMIC2_XOR_C = 0x165,
    GNI_FMA_ATOMIC2_XOR_SC = 0x364,
    GNI_FMA_ATOMIC2_FSWAP = 0x47,
    GNI_FMA_ATOMIC2_FSWAP_S = 0x246,
    GNI_FMA_ATOMIC2_FSWAP_C = 0x67,
    GNI_FMA_ATOMIC2_FSWAP_SC = 0x266,
    GNI_FMA_ATOMIC2_SWAP = 0x147,
    GNI_FMA_ATOMIC2_SWAP_S = 0x346,
    GNI_FMA_ATOMIC2_SWAP_C = 0x167,
    GNI_FMA_ATOMIC2_SWAP_SC = 0x366,
    GNI_FMA_ATOMIC2_FAX = 0x49,
    GNI_FMA_ATOMIC2_FAX_S = 0x248,
    GNI_FMA_ATOMIC2_FAX_C = 0x69,
    GNI_FMA_ATOMIC2_FAX_SC = 0x268,
    GNI_FMA_ATOMIC2_AX = 0x149,
    GNI_FMA_ATOMIC2_AX_S = 0x348,
    GNI_FMA_ATOMIC2_AX_C = 0x169,
    GNI_FMA_ATOMIC2_AX_SC = 0x368,
    GNI_FMA_ATOMIC2_FCSWAP = 0x4b,
    GNI_FMA_ATOMIC2_FCSWAP_S = 0x24a,
    GNI_FMA_ATOMIC2_FCSWAP_C = 0x6b,
    GNI_FMA_ATOMIC2_FCSWAP_SC = 0x26a,
    GNI_FMA_ATOMIC2_CSWAP = 0x14b,
    GNI_FMA_ATOMIC2_CSWAP_S = 0x34a,
    GNI_FMA_ATOMIC2_CSWAP_C = 0x16b,
    GNI_FMA_ATOMIC2_CSWAP_SC = 0x36a,
    GNI_FMA_ATOMIC2_FIMIN = 0x51,
    GNI_FMA_ATOMIC2_FIMIN_S = 0x250,
    GNI_FMA_ATOMIC2_FIMIN_C = 0x71,
    GNI_FMA_ATOMIC2_FIMIN_SC = 0x270,
    GNI_FMA_ATOMIC2_IMIN = 0x151,
    GNI_FMA_ATOMIC2_IMIN_S = 0x350,
    GNI_FMA_ATOMIC2_IMIN_C = 0x171,
    GNI_FMA_ATOMIC2_IMIN_SC = 0x370,
    GNI_FMA_ATOMIC2_FIMAX = 0x53,
    GNI_FMA_ATOMIC2_FIMAX_S = 0x252,
    GNI_FMA_ATOMIC2_FIMAX_C = 0x73,
    GNI_FMA_ATOMIC2_FIMAX_SC = 0x272,
    GNI_FMA_ATOMIC2_IMAX = 0x153,
    GNI_FMA_ATOMIC2_IMAX_S = 0x352,
    GNI_FMA_ATOMIC2_IMAX_C = 0x173,
    GNI_FMA_ATOMIC2_IMAX_SC = 0x372,
    GNI_FMA_ATOMIC2_FIADD = 0x55,
    GNI_FMA_ATOMIC2_FIADD_S = 0x254,
    GNI_FMA_ATOMIC2_FIADD_C = 0x75,
    GNI_FMA_ATOMIC2_FIADD_SC = 0x274,
    GNI_FMA_ATOMIC2_IADD = 0x155,
    GNI_FMA_ATOMIC2_IADD_S = 0x354,
    GNI_FMA_ATOMIC2_IADD_C = 0x175,
    GNI_FMA_ATOMIC2_IADD_SC = 0x374,
    GNI_FMA_ATOMIC2_FFPMIN = 0x59,
    GNI_FMA_ATOMIC2_FFPMIN_S = 0x258,
    GNI_FMA_ATOMIC2_FFPMIN_C = 0x79,
    GNI_FMA_ATOMIC2_FFPMIN_SC = 0x278,
    GNI_FMA_ATOMIC2_FPMIN = 0x159,
    GNI_FMA_ATOMIC2_FPMIN_S = 0x358,
    GNI_FMA_ATOMIC2_FPMIN_C = 0x179,
    GNI_FMA_ATOMIC2_FPMIN_SC = 0x378,
    GNI_FMA_ATOMIC2_FFPMAX = 0x5b,
    GNI_FMA_ATOMIC2_FFPMAX_S = 0x25a,
    GNI_FMA_ATOMIC2_FFPMAX_C = 0x7b,
    GNI_FMA_ATOMIC2_FFPMAX_SC = 0x27a,
    GNI_FMA_ATOMIC2_FPMAX = 0x15b,
    GNI_FMA_ATOMIC2_FPMAX_S = 0x35a,
    GNI_FMA_ATOMIC2_FPMAX_C = 0x17b,
    GNI_FMA_ATOMIC2_FPMAX_SC = 0x37a,
    GNI_FMA_ATOMIC2_FFPADD = 0x5d,
    GNI_FMA_ATOMIC2_FFPADD_S = 0x25c,
    GNI_FMA_ATOMIC2_FFPADD_C = 0x7d,
    GNI_FMA_ATOMIC2_FFPADD_SC = 0x27c,
    GNI_FMA_ATOMIC2_FPADD = 0x15d,
    GNI_FMA_ATOMIC2_FPADD_S = 0x35c,
    GNI_FMA_ATOMIC2_FPADD_C = 0x17d,
    GNI_FMA_ATOMIC2_FPADD_SC = 0x37c
} gni_fma_cmd_type_t;

/* Commands of the collective engine. */
typedef enum gni_ce_cmd_type {
    GNI_FMA_CE_AND_S = 0x00,
    GNI_FMA_CE_AND = 0x01,
    GNI_FMA_CE_OR_S = 0x02,
    GNI_FMA_CE_OR = 0x03,
    GNI_FMA_CE_XOR_S = 0x04,
    GNI_FMA_CE_XOR = 0x05,
    GNI_FMA_CE_IMIN_LIDX_S = 0x10,
    GNI_FMA_CE_IMIN_LIDX = 0x11,
    GNI_FMA_CE_IMAX_LIDX_S = 0x12,
    GNI_FMA_CE_IMAX_LIDX = 0x13,
    GNI_FMA_CE_IADD_S = 0x14,
    GNI_FMA_CE_IADD = 0x15,
    GNI_FMA_CE_FPMIN_LIDX_S = 0x18,
    GNI_FMA_CE_FPMIN_LIDX = 0x19,
    GNI_FMA_CE_FPMAX_LIDX_S = 0x1A,
    GNI_FMA_CE_FPMAX_LIDX = 0x1B,
    GNI_FMA_CE_FPADD_S = 0x1C,
    GNI_FMA_CE_FPADD = 0x1D,
    GNI_FMA_CE_IMIN_GIDX_S = 0x30,
    GNI_FMA_CE_IMIN_GIDX = 0x31,
    GNI_FMA_CE_IMAX_GIDX_S = 0x32,
    GNI_FMA_CE_IMAX_GIDX = 0x33,
    GNI_FMA_CE_FPMIN_GIDX_S = 0x38,
    GNI_FMA_CE_FPMIN_GIDX = 0x39,
    GNI_FMA_CE_FPMAX_GIDX_S = 0x3A,
    GNI_FMA_CE_FPMAX_GIDX = 0x3B
} gni_ce_cmd_type_t;

typedef enum gni_ce_child { GNI_CE_CHILD_UNUSED = 0, GNI_CE_CHILD_VCE = 1, GNI_CE_CHILD_PE = 2 } gni_ce_child_t;

/* Events of an operation. */
#define GNI_CQMODE_SILENT 0
#define GNI_CQMODE_LOCAL_EVENT 1
#define GNI_CQMODE_GLOBAL_EVENT 2
#define GNI_CQMODE_REMOTE_EVENT 4
#define GNI_CQMODE_DUAL_EVENTS 3

/* Routing. */
#define GNI_DLVMODE_PERFORMANCE 0
#define GNI_DLVMODE_ADAPTIVE0 0
#define GNI_DLVMODE_NO_ADAPT 1
#define GNI_DLVMODE_NO_HASH 2
#define GNI_DLVMODE_IN_ORDER 3
#define GNI_DLVMODE_MNON_HASH 3
#define GNI_DLVMODE_NO_RADAPT 4
#define GNI_DLVMODE_NMIN_HASH 8
#define GNI_DLVMODE_MIN_HASH 0x10
#define GNI_DLVMODE_ADAPTIVE1 0x20
#define GNI_DLVMODE_ADAPTIVE2 0x40
#define GNI_DLVMODE_ADAPTIVE3 0x80
#define GNI_DLVMODE_ORDERED_TAIL 0x100

/* Modes of RDMA operations. */
#define GNI_RDMAMODE_PHYS_ADDR 1
#define GNI_RDMAMODE_FENCE 2
#define GNI_RDMAMODE_GETWC_DIS 4

/* Modes of operations of the collective engine. */
#define GNI_CEMODE_TWO_OP 1
#define GNI_CEMODE_FPE_OP_INVAL 2
#define GNI_CEMODE_FPE_OFLOW 4
#define GNI_CEMODE_FPE_UFLOW 8
#define GNI_CEMODE_FPE_PRECISION 0x10

/* Modes of a collective engine: one rounding, one event, one routing. */
#define GNI_CE_MODE_ROUND_UP 1
#define GNI_CE_MODE_ROUND_DOWN 2
#define GNI_CE_MODE_ROUND_NEAR 4
#define GNI_CE_MODE_ROUND_ZERO 8
#define GNI_CE_MODE_CQE_ONCOMP 0x10
#define GNI_CE_MODE_CQE_ONERR 0x40
#define GNI_CE_MODE_RC_NMIN_HASH 0x80
#define GNI_CE_MODE_RC_MIN_HASH 0x100
#define GNI_CE_MODE_RC_MNON_HASH 0x200
#define GNI_CE_MODE_RC_ADAPT 0x400

/* Floating-point exceptions of a result. */
#define GNI_CE_FPE_OP_INVAL 1
#define GNI_CE_FPE_OFLOW 2
#define GNI_CE_FPE_UFLOW 4
#define GNI_CE_FPE_PRECISION 8

/* Modes of communication domains. */
#define GNI_CDM_MODE_FORK_NOCOPY 0x1
#define GNI_CDM_MODE_FORK_FULLCOPY 0x2
#define GNI_CDM_MODE_FORK_PARTCOPY 0x4
#define GNI_CDM_MODE_ERR_NO_KILL 0x8
#define GNI_CDM_MODE_ERR_ALL_KILL 0x10
#define GNI_CDM_MODE_FAST_DATAGRAM_POLL 0x20
#define GNI_CDM_MODE_BTE_SINGLE_CHANNEL 0x40
#define GNI_CDM_MODE_USE_PCI_IOMMU 0x80
#define GNI_CDM_MODE_MDD_DEDICATED 0x100
#define GNI_CDM_MODE_MDD_SHARED 0x200
#define GNI_CDM_MODE_DUAL_EVENTS 0x1000
#define GNI_CDM_MODE_DLA_ENABLE_FORWARDING 0x4000
#define GNI_CDM_MODE_DLA_DISABLE_FORWARDING 0x8000
#define GNI_CDM_MODE_FMA_DEDICATED 0x10000
#define GNI_CDM_MODE_FMA_SHARED 0x20000
#define GNI_CDM_MODE_CACHED_AMO_ENABLED 0x40000
#define GNI_CDM_MODE_CQ_NIC_LOCAL_PLACEMENT 0x80000
#define GNI_CDM_MODE_FLBTE_DISABLE 0x100000
#define GNI_CDM_MODE_FMA_SMALL_WINDOW 0x200000
#define GNI_CDM_MODE_MASK 0x0FFFFFFF
#define GNI_CDM_MODE_PRIV_MASK 0xF0000000

/* Flags of registrations. */
#define GNI_MEM_READWRITE 0
#define GNI_MEM_READ_ONLY 1
#define GNI_MEM_USE_VMDH 2
#define GNI_MEM_USE_GART 4
#define GNI_MEM_PHYS_CONT 8
#define GNI_MEM_PHYS_SEGMENTS 0x10
#define GNI_MEM_STRICT_PI_ORDERING 0x20
#define GNI_MEM_PI_FLUSH 0x40
#define GNI_MEM_MDD_CLONE 0x80
#define GNI_MEM_RELAXED_PI_ORDERING 0x100
#define GNI_MEM_RESERVE_REGION 0x200
#define GNI_MEM_UPDATE_REGION 0x400
#define GNI_MEM_MDD_SHARED 0x800
#define GNI_MEM_MDD_DEDICATED 0x1000
#define GNI_MEM_CUDA 0x01000000

/* Modes of completion queues. */
#define GNI_CQ_NOBLOCK 0
#define GNI_CQ_BLOCKING 1
#define GNI_CQ_EMULATED 2
#define GNI_CQ_PHYS_PAGES 4
#define GNI_CQ_UNMANAGED 8
#define GNI_CQ_NOAUTOFILL 0x10

/* Types of entries. */
#define GNI_CQ_EVENT_TYPE_POST 0
#define GNI_CQ_EVENT_TYPE_SMSG 1
#define GNI_CQ_EVENT_TYPE_DMAPP 2
#define GNI_CQ_EVENT_TYPE_MSGQ 3

/* Protection tags and keys. */
#define GNI_PTAG_LND 1
#define GNI_PTAG_OFED 2
#define GNI_PTAG_USER_START 3
#define GNI_PTAG_LND_KNC 128
#define GNI_PTAG_USER_END 253
#define GNI_PTAG_HSNBOOT 254
#define GNI_PTAG_MAX 254
#define GNI_PTAG_LB 255
#define GNI_FIND_ALLOC_PTAG 255
#define GNI_PKEY_INVALID 0
#define GNI_PKEY_LND 1
#define GNI_PKEY_OFED 2
#define GNI_PKEY_USER_START 128
#define GNI_PKEY_USER_END 65407
#define GNI_PKEY_HSNBOOT 65408
#define GNI_PKEY_MAX 65534
#define GNI_PKEY_LB 65535

/* Sizes. */
#define GNI_CE_MAX_CHILDREN 32
#define GNI_FMA_FLAGGED_RESPONSE_SIZE 4
#define GNI_DATAGRAM_MAXSIZE 128
#define GNI_SMSG_MAX_SIZE 65535
#define GNI_SMSG_ANY_TAG 0xFF

/* Registered memory: data that may be copied and sent. */
typedef struct gni_mem_handle {
    uint64_t qword1;
    uint64_t qword2;
} gni_mem_handle_t;

/* A posted operation. The library keeps its address until GNI_GetCompleted has returned it for the
 * last event. */
typedef struct gni_post_descriptor {
    void *next_descr;
    void *prev_descr;
    uint64_t post_id;
    uint64_t status;
    uint16_t cq_mode_complete;
    gni_post_type_t type;
    uint16_t cq_mode;
    uint16_t dlvr_mode;
    uint64_t local_addr;
    gni_mem_handle_t local_mem_hndl;
    uint64_t remote_addr;
    gni_mem_handle_t remote_mem_hndl;
    uint64_t length;
    uint16_t rdma_mode;
    gni_cq_handle_t src_cq_hndl;
    uint64_t sync_flag_value;
    uint64_t sync_flag_addr;
    gni_fma_cmd_type_t amo_cmd;
    uint64_t first_operand;
    uint64_t second_operand;
    uint64_t cqwrite_value;
    /* Aries only, as all that follows. */
    gni_ce_cmd_type_t ce_cmd;
    uint32_t ce_mode;
    uint64_t ce_red_id;
} gni_post_descriptor_t;

/* Links behind the descriptor of a chained transaction, a structure for each type. The descriptor
 * and each link point to the next link; the last one has NULL. */
typedef struct gni_ct_put_post_descriptor {
    void *next_descr;
    gni_ep_handle_t ep_hndl;
    uint64_t length;
    uint64_t remote_addr;
    gni_mem_handle_t remote_mem_hndl;
    uint64_t local_addr;
} gni_ct_put_post_descriptor_t;

typedef struct gni_ct_get_post_descriptor {
    void *next_descr;
    gni_ep_handle_t ep_hndl;
    uint64_t length;
    uint64_t remote_addr;
    gni_mem_handle_t remote_mem_hndl;
    uint64_t local_addr;
    gni_mem_handle_t local_mem_hndl;
} gni_ct_get_post_descriptor_t;

typedef struct gni_ct_amo_post_descriptor {
    void *next_descr;
    gni_ep_handle_t ep_hndl;
    uint64_t length;
    uint64_t remote_addr;
    gni_mem_handle_t remote_mem_hndl;
    uint64_t local_addr;
    gni_mem_handle_t local_mem_hndl;
    gni_fma_cmd_type_t amo_cmd;
    uint64_t first_operand;
    uint64_t second_operand;
} gni_ct_amo_post_descriptor_t;

typedef struct gni_ct_cqw_post_descriptor {
    void *next_descr;
    gni_ep_handle_t ep_hndl;
    gni_mem_handle_t remote_mem_hndl;
    uint64_t cqwrite_value;
} gni_ct_cqw_post_descriptor_t;

typedef struct gni_ct_uni_post_descriptor {
    union {
        gni_ct_put_post_descriptor_t put;
        gni_ct_get_post_descriptor_t get;
        gni_ct_amo_post_descriptor_t amo;
        gni_ct_cqw_post_descriptor_t cqw;
    } u;
} gni_ct_uni_post_descriptor_t;

/* A result of the collective engine; its address is a multiple of 32. */
typedef struct gni_ce_result {
    uint64_t control;
    uint64_t result1;
    uint64_t result2;
} gni_ce_result_t;

/* A resource of a job. */
typedef struct gni_job_res_desc {
    uint64_t used;
    uint64_t limit;
} gni_job_res_desc_t;

/* A resource of a device. */
typedef struct gni_dev_res_desc {
    uint64_t available;
    uint64_t reserved;
    uint64_t held;
    uint64_t total;
} gni_dev_res_desc_t;

/* Versions of library and kernel driver: 0xMMmmCCCC. */
typedef struct gni_version_info {
    uint32_t ugni_version;
    uint32_t ugni_svn_revision;
    char ugni_build_string[80];
    uint32_t kgni_version;
    uint32_t kgni_svn_revision;
    char kgni_build_string[80];
} gni_version_info_t;

/* A mailbox. */
typedef struct gni_smsg_attr {
    gni_smsg_type_t msg_type;
    void *msg_buffer;
    uint32_t buff_size;
    gni_mem_handle_t mem_hndl;
    uint32_t mbox_offset;
    uint16_t mbox_maxcredit;
    uint32_t msg_maxsize;
} gni_smsg_attr_t;

/* Functions, in the order of the alphabet but for their subjects. */
gni_return_t GNI_GetDeviceType(OUT gni_nic_device_t *dev_type);
gni_return_t GNI_CdmGetNicAddress(IN uint32_t device_id, OUT uint32_t *address, OUT uint32_t *cpu_id);
gni_return_t GNI_CdmCreate(IN uint32_t inst_id, IN uint8_t ptag, IN uint32_t cookie, IN uint32_t modes,
                           OUT gni_cdm_handle_t *cdm_hndl);
gni_return_t GNI_CdmAttach(IN gni_cdm_handle_t cdm_hndl, IN uint32_t device_id, OUT uint32_t *local_addr,
                           OUT gni_nic_handle_t *nic_hndl);
gni_return_t GNI_CdmDestroy(IN gni_cdm_handle_t cdm_hndl);
gni_return_t GNI_EpCreate(IN gni_nic_handle_t nic_hndl, IN gni_cq_handle_t src_cq_hndl, OUT gni_ep_handle_t *ep_hndl);
gni_return_t GNI_EpBind(IN gni_ep_handle_t ep_hndl, IN uint32_t remote_addr, IN uint32_t remote_id);
gni_return_t GNI_EpSetEventData(IN gni_ep_handle_t ep_hndl, IN uint32_t local_event, IN uint32_t remote_event);
gni_return_t GNI_EpUnbind(IN gni_ep_handle_t ep_hndl);
gni_return_t GNI_EpDestroy(IN gni_ep_handle_t ep_hndl);
gni_return_t GNI_EpSetCeAttr(IN gni_ep_handle_t ep_hndl, IN uint32_t ce_id, IN uint32_t child_id,
                             IN gni_ce_child_t child_type);
gni_return_t GNI_MemRegister(IN gni_nic_handle_t nic_hndl, IN uint64_t address, IN uint64_t length,
                             IN gni_cq_handle_t dst_cq_hndl, IN uint32_t flags, IN uint32_t vmdh_index,
                             INOUT gni_mem_handle_t *mem_hndl);
gni_return_t GNI_MemDeregister(IN gni_nic_handle_t nic_hndl, IN gni_mem_handle_t *mem_hndl);
gni_return_t GNI_CqCreate(IN gni_nic_handle_t nic_hndl, IN uint32_t entry_count, IN uint32_t delay_count,
                          IN gni_cq_mode_t mode, IN void (*handler)(gni_cq_entry_t *, void *), IN void *context,
                          OUT gni_cq_handle_t *cq_hndl);
gni_return_t GNI_CqDestroy(IN gni_cq_handle_t cq_hndl);
gni_return_t GNI_CqTestEvent(IN gni_cq_handle_t cq_hndl);
gni_return_t GNI_CqGetEvent(IN gni_cq_handle_t cq_hndl, OUT gni_cq_entry_t *event_data);
gni_return_t GNI_GetCompleted(IN gni_cq_handle_t cq_hndl, IN gni_cq_entry_t event_data,
                              OUT gni_post_descriptor_t **post_descr);
gni_return_t GNI_PostFma(IN gni_ep_handle_t ep_hndl, IN gni_post_descriptor_t *post_descr);
gni_return_t GNI_PostRdma(IN gni_ep_handle_t ep_hndl, IN gni_post_descriptor_t *post_descr);
gni_return_t GNI_PostCqWrite(IN gni_ep_handle_t ep_hndl, IN gni_post_descriptor_t *post_descr);
gni_return_t GNI_CeCreate(IN gni_nic_handle_t nic_hndl, OUT gni_ce_handle_t *ce_hndl);
gni_return_t GNI_CeGetId(IN gni_ce_handle_t ce_hndl, OUT uint32_t *ce_id);
gni_return_t GNI_CeConfigure(IN gni_ce_handle_t ce_hndl, IN gni_ep_handle_t *child_eps, IN uint32_t num_child_eps,
                             IN gni_ep_handle_t parent_ep, IN gni_cq_handle_t cq_hndl, IN uint32_t modes);
gni_return_t GNI_CeCheckResult(IN gni_ce_result_t *result, IN uint32_t length);
gni_return_t GNI_CeDestroy(IN gni_ce_handle_t ce_hndl);
gni_return_t GNI_CqErrorStr(IN gni_cq_entry_t entry, OUT void *buffer, IN uint32_t len);
gni_return_t GNI_CqErrorRecoverable(IN gni_cq_entry_t entry, OUT uint32_t *recoverable);
gni_return_t GNI_GetPtag(IN uint32_t device_id, IN uint32_t cookie, OUT uint8_t *ptag);
gni_return_t GNI_GetJobResInfo(IN uint32_t device_id, IN uint8_t ptag, IN gni_job_res_t res_type,
                               OUT gni_job_res_desc_t *res_desc);
gni_return_t GNI_GetDevResInfo(IN uint32_t device_id, IN gni_dev_res_t res_type, OUT gni_dev_res_desc_t *res_desc);
gni_return_t GNI_GetVersionInformation(OUT gni_version_info_t *version_info);
gni_return_t GNI_GetNumLocalDevices(OUT int *num_devices);
gni_return_t GNI_EpPostData(IN gni_ep_handle_t ep_hndl, IN void *in_data, IN uint16_t data_len, IN void *out_buf,
                            IN uint16_t buf_size);
gni_return_t GNI_EpPostDataWId(IN gni_ep_handle_t ep_hndl, IN void *in_data, IN uint16_t data_len, IN void *out_buf,
                               IN uint16_t buf_size, IN uint64_t datagram_id);
gni_return_t GNI_EpPostDataTestById(IN gni_ep_handle_t ep_hndl, IN uint64_t datagram_id,
                                    OUT gni_post_state_t *post_state, OUT uint32_t *remote_addr,
                                    OUT uint32_t *remote_id);
gni_return_t GNI_EpPostDataWaitById(IN gni_ep_handle_t ep_hndl, IN uint64_t datagram_id, IN uint32_t timeout,
                                    OUT gni_post_state_t *post_state, OUT uint32_t *remote_addr,
                                    OUT uint32_t *remote_id);
gni_return_t GNI_PostDataProbeById(IN gni_nic_handle_t nic_hndl, OUT uint64_t *datagram_id);
gni_return_t GNI_PostdataProbeWaitById(IN gni_nic_handle_t nic_hndl, IN uint32_t timeout, OUT uint64_t *datagram_id);
gni_return_t GNI_EpPostDataCancel(IN gni_ep_handle_t ep_hndl);
gni_return_t GNI_CtPostFma(IN gni_ep_handle_t ep_hndl, IN gni_post_descriptor_t *post_descr);
gni_return_t GNI_CqVectorMonitor(IN gni_cq_handle_t *cq_hndls, IN uint32_t num_cqs, IN uint64_t timeout,
                                 OUT uint32_t *which);
gni_return_t GNI_SmsgBufferSizeNeeded(IN gni_smsg_attr_t *smsg_attr, OUT unsigned int *size);
gni_return_t GNI_SmsgInit(IN gni_ep_handle_t ep_hndl, IN gni_smsg_attr_t *local_smsg_attr,
                          IN gni_smsg_attr_t *remote_smsg_attr);
gni_return_t GNI_SmsgSendWTag(IN gni_ep_handle_t ep_hndl, IN void *header, IN uint32_t header_length, IN void *data,
                              IN uint32_t data_length, IN uint32_t msg_id, IN uint8_t tag);
gni_return_t GNI_SmsgGetNextWTag(IN gni_ep_handle_t ep_hndl, OUT void **header, OUT uint8_t *tag);
gni_return_t GNI_SmsgRelease(IN gni_ep_handle_t ep_hndl);
gni_return_t GNI_CompChanCreate(IN gni_nic_handle_t nic_hndl, OUT gni_comp_chan_handle_t *chan_hndl);
gni_return_t GNI_CompChanDestroy(IN gni_comp_chan_handle_t chan_hndl);
gni_return_t GNI_CompChanFd(IN gni_comp_chan_handle_t chan_hndl, OUT int *comp_chan_fd);
gni_return_t GNI_CompChanGetEvent(IN gni_comp_chan_handle_t chan_hndl, OUT gni_cq_handle_t *cq_hndl);
gni_return_t GNI_CqAttachCompChan(IN gni_cq_handle_t cq_hndl, IN gni_comp_chan_handle_t chan_hndl);
gni_return_t GNI_CqArmCompChan(IN gni_cq_handle_t *cq_hndls, IN uint32_t num_cqs);

/* Parts of entries. */
uint64_t gni_cq_get_data(gni_cq_entry_t entry);
uint64_t gni_cq_get_status(gni_cq_entry_t entry);
uint64_t gni_cq_get_inst_id(gni_cq_entry_t entry);
uint64_t gni_cq_get_rem_inst_id(gni_cq_entry_t entry);
uint64_t gni_cq_get_msg_id(gni_cq_entry_t entry);
uint64_t gni_cq_get_type(gni_cq_entry_t entry);
uint64_t gni_cq_overrun(gni_cq_entry_t entry);

#define GNI_CQ_GET_DATA(entry) gni_cq_get_data(entry)
#define GNI_CQ_GET_STATUS(entry) gni_cq_get_status(entry)
#define GNI_CQ_GET_INST_ID(entry) gni_cq_get_inst_id(entry)
#define GNI_CQ_GET_REM_INST_ID(entry) gni_cq_get_rem_inst_id(entry)
#define GNI_CQ_GET_MSG_ID(entry) gni_cq_get_msg_id(entry)
#define GNI_CQ_GET_TYPE(entry) gni_cq_get_type(entry)
#define GNI_CQ_OVERRUN(entry) gni_cq_overrun(entry)
#define GNI_CQ_STATUS_OK(entry) (gni_cq_get_status(entry) == 0)

/* Parts of results of the collective engine. */
uint64_t gni_ce_res_get_status(gni_ce_result_t *result);
#define GNI_CE_RES_GET_STATUS(result) gni_ce_res_get_status(result)

#ifdef __cplusplus
}
#endif

#endif
