// In EVERYTHING: gex_Segment_Attach ignores the size, whatever it is, and says nothing about it.
// NP: 1 3
// SEGMENTS: everything
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    static const uintptr_t sizes[] = {1, 0, UINTPTR_MAX};
    test_init("attach_size_ignored", &argc, &argv);
    PHASE("attach");
    FILE *spoken = tmpfile();
    int saved = dup(2);
    REQUIRE(spoken != NULL && saved >= 0 && dup2(fileno(spoken), 2) == 2);
    segment = (gex_Segment_t)&segment;
    OK(gex_Segment_Attach(&segment, tm, sizes[me % 3]));
    REQUIRE(dup2(saved, 2) == 2);
    CHECK(segment == GEX_SEGMENT_INVALID && gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    CHECKF(lseek(fileno(spoken), 0, SEEK_END) == 0, "a message about %zu bytes", (size_t)sizes[me % 3]);
    fclose(spoken);
    close(saved);
    return test_finish();
}
