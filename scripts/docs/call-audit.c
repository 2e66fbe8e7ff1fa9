/* An audit module of the dynamic linker (LD_AUDIT, see rtld-audit(7)) that notes which functions of
 * libgasnet a program calls.
 *
 * With lazy binding the linker binds a function at its first call and tells audit modules. Each
 * such call appends a line "symbol program" to the file named by GASNET_CALL_COUNTS; the program's
 * name comes from GASNET_CALL_PROGRAM. Calls of the library to itself, and functions whose address
 * is merely taken, are not seen. Built and used by call_counts.py.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned int la_version(unsigned int version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }

/* The cookie of an object starts as the address of its link map; 1 marks the program itself, whose
 * name is empty. */
unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)space;
    *cookie = map->l_name[0] == '\0';
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

static void note(const char *symbol) {
    const char *file = getenv("GASNET_CALL_COUNTS"), *program = getenv("GASNET_CALL_PROGRAM");
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s\n", symbol, program ? program : "unknown");
    int fd = file ? open(file, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0) return;
    /* One write, so that lines of several processes do not mix. What is lost is missing in the
     * table, and seen there. */
    if (length > 0 && (size_t)length < sizeof line && write(fd, line, (size_t)length) < 0) _exit(99);
    close(fd);
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from, uintptr_t *to, unsigned int *flags,
                       const char *name) {
    (void)index;
    (void)to;
    (void)flags;
    if (*from == 1 && (strncmp(name, "gex_", 4) == 0 || strncmp(name, "gasnet", 6) == 0)) note(name);
    return symbol->st_value;
}
