/* Seccomp filters, with which the kernel refuses system calls. */
#ifndef COMPAT_TESTS_REFUSE_H
#define COMPAT_TESTS_REFUSE_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* System calls whose numbers compare so (BPF_JEQ, BPF_JGE) with `number` fail with `error`. 0 if
 * this machine has no seccomp filters. */
static inline int refuse_all(unsigned short comparison, unsigned number, unsigned error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    code[1].code |= comparison;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* System call `number`, of copies between processes, fails. Not for ibv, whose emulator copies that
 * way itself. */
static inline int refuse(unsigned number, unsigned error) { return refuse_all(BPF_JEQ, number, error); }

/* The error of a copy from this process to itself, 0 when it works. */
static inline int refusal(void) {
    char from = 1, to = 0;
    struct iovec here = {&to, 1}, there = {&from, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 ? 0 : errno;
}

#endif
