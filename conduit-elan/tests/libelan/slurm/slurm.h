/* Stand-in for <slurm/slurm.h>, which is public: only what the shim calls. As in Slurm 22.05. */
#ifndef GASNET_STANDIN_SLURM_SLURM_H
#define GASNET_STANDIN_SLURM_SLURM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int slurm_kill_job(uint32_t job_id, uint16_t signal, uint16_t batch_flag);
int slurm_kill_job_step(uint32_t job_id, uint32_t step_id, uint16_t signal);
int slurm_get_errno(void);
char *slurm_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif
