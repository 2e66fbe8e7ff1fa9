#!/bin/sh
# abi.sh [--write]: fails when what a C compiler computes from the headers (sizes, offsets,
# constants) differs from docs/abi-baseline.txt, which is the binary interface that clients were
# compiled against. docs/abi.md names the numbers to raise then.
FLAVOUR=release
. "$(dirname -- "$0")/../common.sh"

cd "$ROOT"
baseline=docs/abi-baseline.txt
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "abi: SKIPPED: the baseline is that of Linux x86_64"
    exit 0
fi
scripts/build/headers.sh smp
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
include="-I$B/include -I$B/include/smp-conduit"

# Constants: every object-like GEX_, GASNET_ and GASNETT_ macro of these families, whatever its
# type.
families='GEX_(FLAG|EC|DT|OP|TI|EVENT|EP_CAPABILITY|THREAD_ROLE|AM)_[A-Z0-9_]*|GEX_[A-Z]*_INVALID'
families=$families'|GASNET_(OK|ERR_[A-Z_]*|WAIT_[A-Z]*|BARRIERFLAG_[A-Z]*)|GASNETT_ATOMIC_[A-Z_]*|SIZEOF_(GEX|GASNET)_[A-Z_]*|GASNETI_ABI'
{
    cat <<'PROGRAM'
#include <gasnetex.h>
#include <gasnet_mk.h>
#include <stdio.h>
#define VALUE(x) printf("%s = 0x%llx\n", #x, (unsigned long long)(uintptr_t)(x));
#define SIZE(t) printf("sizeof %s = %zu, align %zu\n", #t, sizeof(t), _Alignof(t));
#define FIELD(t, f) printf("  offset %s.%s = %zu\n", #t, #f, offsetof(t, f));
typedef struct gasneti_build_info gasneti_build_info;
int main(void) {
PROGRAM
    for type in gex_Rank_t gex_EP_Index_t gex_Flags_t gex_DT_t gex_OP_t gex_EC_t gex_TI_t gex_EP_Capabilities_t \
        gex_AM_Index_t gex_AM_Arg_t \
        gex_RMA_Value_t gex_HSL_t gasnett_atomic_t gasnett_atomic32_t gasnett_atomic64_t gasnett_tick_t \
        gasnett_mutex_t gasnett_cond_t \
        gasnett_rwlock_t; do
        echo "SIZE($type)"
    done
    while read -r type fields; do
        echo "SIZE($type)"
        for field in $fields; do echo "FIELD($type, $field)"; done
    done <<'TYPES'
gasneti_tm_head_t gasneti_first gasneti_count gasneti_deltas gasneti_vis_watch
gex_Memvec_t gex_addr gex_len
gex_MK_Create_args_t gex_flags gex_class gex_args
gex_EP_Location_t gex_rank gex_ep_index
gex_RankInfo_t gex_jobrank
gex_AM_Entry_t gex_index gex_fnptr gex_flags gex_nargs gex_cdata gex_name
gex_Token_Info_t gex_srcrank gex_ep gex_entry gex_is_req gex_is_long
gex_ProgressThreadInfo_t gex_device_list gex_thread_roles gex_progress_fn gex_progress_arg
gasnet_seginfo_t addr size
gasnet_nodeinfo_t host supernode offset
gasnett_backtrace_type_t name fnp threadsupport
TYPES
    echo 'SIZE(gasneti_build_info)'
    for field in size abi mode debug conduit release segment pointer_bytes hsl_bytes am_entry_bytes token_info_bytes; do
        echo "FIELD(gasneti_build_info, gasneti_$field)"
    done
    for class in HOST CUDA_UVA HIP ZE; do echo "VALUE(GEX_MK_CLASS_$class)"; done
    # shellcheck disable=SC2086 # two options
    echo '#include <gasnetex.h>' | "$CC" -E -dM -DGASNET_PAR $include -x c - |
        awk '$1 == "#define" && NF > 2 { print $2 }' | grep -xE "$families" | grep -v _CONFIG |
        sort -u | sed 's/.*/VALUE(&)/'
    echo 'return 0; }'
} >"$scratch/abi.c"
# The program calls nothing of the library, so nothing of it is linked in.
# shellcheck disable=SC2086 # two options
"$CC" -std=gnu11 -O1 -w -DGASNET_PAR -DGASNETI_BUILDING_LIBRARY -DGASNETI_NO_LINK_CHECK \
    -ffunction-sections -Wl,--gc-sections $include \
    -o "$scratch/abi" "$scratch/abi.c" -lpthread
"$scratch/abi" >"$scratch/now"

if [ "${1:-}" = --write ]; then
    replace "$baseline" <"$scratch/now"
elif ! diff -u "$baseline" "$scratch/now"; then
    echo "abi: the headers differ from $baseline: docs/abi.md says what to raise; then scripts/check/abi.sh --write" >&2
    exit 1
fi
echo "abi: $(grep -c . "$scratch/now") facts agree with $baseline"
