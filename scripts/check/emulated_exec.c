/* Linked with programs for emulated processors (qemu-user). The kernel cannot execute them, so
 * `execv`, by which the library starts ranks, executes the script EMULATOR instead. Its words are
 * those of qemu: -0, the first word, the program, the other words. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 256 };

int execv(const char *program, char *const words[]) {
    static char path[PATH_MAX];
    char *all[WORDS + 4] = {EMULATOR, "-0", words[0]};
    int count;
    /* A link to itself in /proc leads to the emulator. */
    all[3] = realpath(program, path);
    if (!all[3]) return -1;
    for (count = 1; count < WORDS && words[count]; count++) all[3 + count] = words[count];
    return execve(EMULATOR, all, environ);
}
