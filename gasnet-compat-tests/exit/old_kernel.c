/* Runs a program as on the kernel of Enterprise Linux 8 (4.18): later system calls do not exist.
 * Their numbers are the same on all machines. Arguments: the program and its arguments. */
#define _GNU_SOURCE 1
#include "../common/refuse.h"

#include <stdio.h>

enum { FIRST_LATER = 424 };

int main(int argc, char **argv) {
    if (argc < 2 || !refuse_all(BPF_JGE, FIRST_LATER, ENOSYS)) {
        perror("old_kernel: no filter");
        return 77;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 78;
}
