/* README-tools, "System properties" and versions. */
#include <gasnet_tools.h>

#include <ctype.h>

#include "tools_check.h"

#if GASNETT_SPEC_VERSION_MAJOR != 1 || GASNETT_SPEC_VERSION_MINOR != 20
#error this is the specification 1.20
#endif

int main(void) {
    char text[128];
    const uint64_t version = GASNETT_RELEASE_VERSION_MAJOR * (uint64_t)1000000 + GASNETT_RELEASE_VERSION_MINOR * 10000 +
                             GASNETT_RELEASE_VERSION_PATCH;
    snprintf(text, sizeof(text), "%d.%d.%d", GASNETT_RELEASE_VERSION_MAJOR, GASNETT_RELEASE_VERSION_MINOR,
             GASNETT_RELEASE_VERSION_PATCH);
    CHECK(!strcmp(gasnett_release_version_str(), text));
    CHECK(gasnett_release_version() == version);
    CHECK(GASNET_RELEASE_VERSION_MAJOR == GASNETT_RELEASE_VERSION_MAJOR);

    CHECK(strlen(GASNETT_SYSTEM_TUPLE) > 0);
    CHECK(strstr(GASNETT_CONFIG_STRING, "RELEASE=") && strstr(GASNETT_CONFIG_STRING, ",SPEC=1.20,"));
#if GASNETT_THREAD_SAFE
    CHECK(strstr(GASNETT_CONFIG_STRING, ",PAR,") != NULL);
#else
    CHECK(strstr(GASNETT_CONFIG_STRING, ",SEQ,") != NULL);
#endif
    CHECK((1 << GASNETT_PAGESHIFT) == GASNETT_PAGESIZE);
    CHECK(GASNETT_PAGESIZE % sysconf(_SC_PAGESIZE) == 0);
    CHECK(GASNETT_CACHE_LINE_BYTES > 0 && (GASNETT_CACHE_LINE_BYTES & (GASNETT_CACHE_LINE_BYTES - 1)) == 0);
    CHECK(GASNETT_MAX_THREADS == 4096);

    CHECK(gethostname(text, sizeof(text)) == 0);
    for (char *c = text; *c; c++) *c = (char)tolower((unsigned char)*c);
    CHECK(!strcmp(gasnett_gethostname(), text));
    CHECK(!strcmp(gasneti_gethostname(), text));
    CHECK(gasnett_gethostname() == gasnett_gethostname());

    CHECK(gasnett_exe_name()[0] == '/' && strstr(gasnett_exe_name(), "tools_system") != NULL);
    CHECK(gasnett_cpu_count() == sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(gasnett_getPhysMemSz(0) == (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    CHECK(gasnett_getPhysMemSz(1) == gasnett_getPhysMemSz(0));
    union {
        uint16_t word;
        uint8_t bytes[2];
    } u = {1};
    CHECK(gasnett_isLittleEndian() == u.bytes[0]);
#if PLATFORM_ARCH_LITTLE_ENDIAN
    CHECK(u.bytes[0] == 1);
#else
    CHECK(u.bytes[0] == 0);
#endif
#if GASNET_DEBUG
    CHECK(gasnett_performance_warning_str()[0] != 0);
#else
    CHECK(gasnett_performance_warning_str()[0] == 0);
#endif
    return test_result("tools_system");
}
