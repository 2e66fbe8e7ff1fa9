/* gasnet_portable_platform.h alone, before anything else. */
#include <gasnet_portable_platform.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if PLATFORM_ARCH_32 + PLATFORM_ARCH_64 != 1 || PLATFORM_ARCH_BIG_ENDIAN + PLATFORM_ARCH_LITTLE_ENDIAN != 1
#error one width and one byte order
#endif
#if !PLATFORM_OS_LINUX
#error only Linux is supported
#endif
#if defined(__clang__)
#if !PLATFORM_COMPILER_CLANG || !PLATFORM_COMPILER_CLANG_C || PLATFORM_COMPILER_GNU
#error clang not recognised
#endif
#elif !PLATFORM_COMPILER_GNU || !PLATFORM_COMPILER_GNU_C || PLATFORM_COMPILER_CLANG
#error gcc not recognised
#elif !PLATFORM_COMPILER_VERSION_EQ(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)
#error version of gcc
#endif
#if PLATFORM_COMPILER_VERSION_LT(3, 0, 0) || !PLATFORM_COMPILER_VERSION_GE(3, 0, 0) || \
    !PLATFORM_COMPILER_VERSION_GT(3, 255, 999) || PLATFORM_COMPILER_VERSION_LE(3, 999, 999)
#error comparison of versions
#endif

int main(void) {
    char version[64];
#if defined(__clang__)
    snprintf(version, sizeof(version), "%d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    snprintf(version, sizeof(version), "%d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
    if (strcmp(version, PLATFORM_COMPILER_VERSION_STR)) return 1;
    if (!strstr(PLATFORM_COMPILER_IDSTR, PLATFORM_STRINGIFY(PLATFORM_COMPILER_FAMILYNAME))) return 1;
    if (strcmp(PLATFORM_STRINGIFY(PLATFORM_OS_FAMILYNAME), "LINUX") || !PLATFORM_STRINGIFY(PLATFORM_ARCH_FAMILYNAME)[0])
        return 1;
#if PLATFORM_ARCH_64
    if (sizeof(void *) != 8) return 1;
#else
    if (sizeof(void *) != 4) return 1;
#endif
    if (PLATFORM_COMPILER_ID != PLATFORM_COMPILER_FAMILYID || PLATFORM_COMPILER_C_LANGLVL < 199901L) return 1;
    if (PLATFORM_HEADER_VERSION != _PORTABLE_PLATFORM_H) return 1;
    printf("tools_platform: PASS\n");
    return 0;
}
