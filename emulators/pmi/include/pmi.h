/* The interface of Cray's PMI library that its emulator has: Cray's own functions, and those of
 * PMI-1 that need no key-value store. All return PMI_SUCCESS or another number. Cray's header is in
 * no public place; of the numbers only PMI_SUCCESS is certain, the others are those of PMI-1. */
#ifndef EMULATOR_PMI_H
#define EMULATOR_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)
#define PMI_ERR_INIT 1
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13
#define PMI_FALSE 0
#define PMI_TRUE 1
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
/* From rank 0. */
int PMI_Bcast(void *data, int bytes);
/* Contributions come in an order of the library, the same in all processes and calls. */
int PMI_Allgather(void *in, void *out, int bytes);
int PMI_Allgather_on_smp(void *in, void *out, int bytes);
/* An int for each rank: its node. It belongs to the library. */
int PMI_Get_nidlist_ptr(void **list);
int PMI_Get_nid(int rank, int *nid);
int PMI_Get_numpes_on_smp(int *count);
int PMI_Get_numpes_in_app_on_smp(int *count);
int PMI_Get_pes_on_smp(int *ranks, int count);

#ifdef __cplusplus
}
#endif
#endif
