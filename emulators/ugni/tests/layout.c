// layout.c: sizes and offsets, stated a second time.
#include "harness.h"

#include <stddef.h>

#define AT(member, offset) _Static_assert(offsetof(gni_post_descriptor_t, member) == offset, #member)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type)

AT(next_descr, 0);
AT(prev_descr, 8);
AT(post_id, 16);
AT(status, 24);
AT(cq_mode_complete, 32);
AT(type, 36);
AT(cq_mode, 40);
AT(dlvr_mode, 42);
AT(local_addr, 48);
AT(local_mem_hndl, 56);
AT(remote_addr, 72);
AT(remote_mem_hndl, 80);
AT(length, 96);
AT(rdma_mode, 104);
AT(src_cq_hndl, 112);
AT(sync_flag_value, 120);
AT(sync_flag_addr, 128);
AT(amo_cmd, 136);
AT(first_operand, 144);
AT(second_operand, 152);
AT(cqwrite_value, 160);
AT(ce_cmd, 168);
AT(ce_mode, 172);
AT(ce_red_id, 176);
SIZE(gni_post_descriptor_t, 184);
SIZE(gni_mem_handle_t, 16);
SIZE(gni_ct_put_post_descriptor_t, 56);
SIZE(gni_ct_get_post_descriptor_t, 72);
SIZE(gni_ct_amo_post_descriptor_t, 96);
SIZE(gni_ct_cqw_post_descriptor_t, 40);
SIZE(gni_ce_result_t, 24);
SIZE(gni_job_res_desc_t, 16);
SIZE(gni_dev_res_desc_t, 32);
SIZE(gni_version_info_t, 176);
SIZE(gni_smsg_attr_t, 56);
SIZE(gni_return_t, 4);
_Static_assert(GNI_POST_AMO_W_FLAG == 10 && GNI_CQMODE_DUAL_EVENTS == 3 && GNI_RC_ERROR_NOMEM == 13, "numbers");
_Static_assert(GNI_FMA_ATOMIC_FADD == 8 && GNI_FMA_ATOMIC_CSWAP == 0xd, "first generation");
_Static_assert(GNI_FMA_ATOMIC2_FCSWAP == 0x4b && GNI_FMA_ATOMIC2_FPMIN_SC == 0x378, "second generation");
_Static_assert(GNI_VERSION == 0x5d0102 && GNI_GET_MINOR(GNI_VERSION) == GNI_MINOR_REV, "version");
_Static_assert(GNI_FMA_CE_FPMAX_GIDX == 0x3b && GNI_CE_MODE_CQE_ONERR == 0x40, "collective engine");

void test_layout(void) {
    gni_version_info_t version;
    int devices = 0;
    must(GNI_GetVersionInformation(&version) == 0, "GNI_GetVersionInformation");
    say("layout", "version %x", version.ugni_version >> 16);
    must(GNI_GetNumLocalDevices(&devices) == 0, "GNI_GetNumLocalDevices");
    say("layout", "a device: %s", devices > 0 ? "yes" : "no");
    say("layout", "name of a code: %s", gni_err_str[GNI_RC_TRANSACTION_ERROR]);
    say("layout", "resources: %s, %s", gni_job_res_to_str(GNI_JOB_RES_RDMA), gni_dev_res_to_str(GNI_DEV_RES_FMA));
}
