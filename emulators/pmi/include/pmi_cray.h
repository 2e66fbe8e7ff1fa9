/* The names of PMI-2 beside those of pmi.h. */
#ifndef EMULATOR_PMI_CRAY_H
#define EMULATOR_PMI_CRAY_H

#include "pmi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PMI2_SUCCESS 0
#define PMI2_FAIL (-1)
#define PMI2_MAX_KEYLEN 64
#define PMI2_MAX_VALLEN 1024
#define PMI2_ID_NULL (-1)

int PMI2_Init(int *spawned, int *size, int *rank, int *number);
int PMI2_Initialized(void);
int PMI2_Finalize(void);
int PMI2_Abort(int flag, const char message[]);
int PMI2_Job_GetId(char id[], int bytes);
int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
int PMI2_KVS_Get(const char *id, int owner, const char key[], char value[], int most, int *bytes);

#ifdef __cplusplus
}
#endif
#endif
