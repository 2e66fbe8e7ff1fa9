/* The interface of Cray's PMI library that its emulator has: names of PMI-1 that do not use a
 * key-value store of their own, and Cray's own functions. All return PMI_SUCCESS or another number.
 * */
#ifndef EMULATOR_PMI_H
#define EMULATOR_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)
#define PMI_ERR_INIT 1
#define PMI_ERR_INVALID_ARG 3
#define PMI_TRUE 1
#define PMI_FALSE 0
typedef int PMI_BOOL;

int PMI_Init(int *spawned);
int PMI_Initialized(int *flag);
int PMI_Finalize(void);
int PMI_Abort(int code, const char message[]);
int PMI_Get_version_info(int *major, int *minor, int *revision);
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *number);
int PMI_Get_rank_in_app(int *rank);
int PMI_Get_app_size(int number, int *size);
int PMI_Barrier(void);
int PMI_Bcast(void *data, int bytes);
int PMI_Allgather(void *in, void *out, int bytes);
int PMI_Allgather_on_smp(void *in, void *out, int bytes);
int PMI_Get_nidlist_ptr(void **list);
int PMI_Get_nid(int rank, int *nid);
int PMI_Get_numpes_on_smp(int *count);
int PMI_Get_numpes_in_app_on_smp(int *count);
int PMI_Get_pes_on_smp(int *ranks, int count);

#ifdef __cplusplus
}
#endif
#endif
