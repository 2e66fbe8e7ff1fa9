// Device memory that the network reaches through a dmabuf: puts and gets, to neighbours too,
// complete while the owner makes no call; a segment inside an allocation, with nothing touched
// around it; a device that exports nothing, whose owner copies; and no descriptor is left.
// NP: 1 2 4
// TIMEOUT: 120
// DEVICES: yes
#include "device.h"

#include <dirent.h>
#include <sched.h>

/* LONG: several regions where an HCA registers 2 MiB at a time. */
enum { SPACE = 1 << 18, ROUNDS = 100, LONG = (3 << 20) + 17 };

/* Whether puts and gets of the memory go by the conduit. */
static int is_exported(const place *p) {
    return !p->device || p->device->number != GEX_MK_CLASS_ZE || !p->client_memory;
}

/* Whether the network reaches device memory of the stand-ins, and host memory: loop does, and the
 * emulated HCAs of ibv, unless they lack both ways. In EVERYTHING host memory is its owner's. */
static int network_reaches(void) {
#ifdef GASNET_SEGMENT_EVERYTHING
    return 0;
#elif defined(GASNET_CONDUIT_LOOP)
    return 1;
#elif defined(GASNET_CONDUIT_IBV)
    const char *words = getenv("EMU_VERBS");
    return words && (!strstr(words, "no-dmabuf") || strstr(words, "peer-memory"));
#else
    return 0;
#endif
}

/* Whether puts and gets of the stand-ins' memory need no call of its owner. */
static int has_nic(void) {
    gex_Rank_t neighbours;
    for (int i = 0; i < CLASSES; i++)
        if (classes[i].devices > 0 && !classes[i].live) return 0;
    gex_System_QueryNbrhdInfo(NULL, &neighbours, NULL);
    return network_reaches() && neighbours < np;
}

static void round_trip(place *local, place *remote, gex_Rank_t peer, size_t bytes) {
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + SPACE / 2 + bytes % 16, *theirs = remote->theirs[peer] + bytes % 8;
    place_fill(local, mine, bytes, bytes + peer);
    OK(gex_RMA_PutBlocking(pair, peer, theirs, mine, bytes, 0));
    place_fill(local, mine, bytes, 1);
    OK(gex_RMA_GetBlocking(pair, mine, peer, theirs, bytes, 0));
    CHECK_PLACE(local, mine, bytes, bytes + peer);
}

/* Rank 0 works with the memory of all others, which make no call until it is done. */
static void without_the_owner(void) {
    static const size_t sizes[] = {1, 8, 5000, 70001};
    volatile uint64_t *flag = (volatile uint64_t *)(seg_of(me) + SPACE - 8);
    PHASE("without the owner");
    *flag = 0;
    barrier();
    if (me > 0) {
        while (*flag == 0) sched_yield();
    } else {
        for (gex_Rank_t peer = 1; peer < np; peer++) {
            for (int from = 0; from < place_count; from++) {
                for (int to = 0; to < place_count; to++) {
                    if (!places[from].device && !places[to].device) continue;
                    if (!is_exported(&places[from]) || !is_exported(&places[to])) continue;
                    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
                        round_trip(&places[from], &places[to], peer, sizes[i]);
                }
            }
            OK(gex_RMA_PutBlockingVal(tm, peer, (void *)(seg_of(peer) + SPACE - 8), 1, 8, 0));
        }
    }
    barrier();
    for (int to = 0; me > 0 && to < place_count; to++) {
        if (places[to].device && is_exported(&places[to]))
            CHECK_PLACE(&places[to], places[to].base + 70001 % 8, 70001, 70001 + me);
    }
    barrier();
}

/* A device segment of every rank, published; its second half is put to the next rank's first, and
 * got back. */
static void exchange(place *p, size_t half) {
    gex_Rank_t peer = (me + 1) % np;
    void *theirs = NULL;
    OK(gex_EP_Create(&p->ep, client, GEX_EP_CAPABILITY_ALL, 0));
    p->index = gex_EP_QueryIndex(p->ep);
    OK(gex_EP_BindSegment(p->ep, p->segment, 0));
    OK(gex_EP_PublishBoundSegment(tm, &p->ep, 1, 0));
    p->base = (char *)gex_Segment_QueryAddr(p->segment);
    gex_TM_t pair = gex_TM_Pair(p->ep, p->index);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, peer, &theirs, NULL, NULL, 0));
    place_fill(p, p->base + half, half, me);
    OK(gex_RMA_PutBlocking(pair, peer, theirs, p->base + half, half, 0));
    barrier();
    CHECK_PLACE(p, p->base, half, (me + np - 1) % np);
    place_fill(p, p->base + half, half, 1);
    OK(gex_RMA_GetBlocking(pair, p->base + half, peer, theirs, half, 0));
    CHECK_PLACE(p, p->base + half, half, me);
    barrier();
}

/* A segment of two odd halves at an odd place of an allocation. */
static void inside(device_class *c, size_t half) {
    enum { OFFSET = 5001 };
    size_t bytes = 2 * half, all = OFFSET + bytes + 4343;
    place p = {.device = c, .kind = make_kind(c, 0)};
    char *memory = (char *)c->alloc(c, 0, all);
    PHASE("inside an allocation");
    REQUIRE(memory != NULL);
    place_fill(&p, memory, all, 77);
    OK(gex_Segment_Create(&p.segment, client, memory + OFFSET, bytes, p.kind, 0));
    exchange(&p, half);
    char *now = (char *)malloc(all), *before = (char *)malloc(all);
    pattern_fill(before, all, 77);
    place_read(&p, now, memory, all);
    CHECK(memcmp(now, before, OFFSET) == 0);
    CHECK(memcmp(now + OFFSET + bytes, before + OFFSET + bytes, all - OFFSET - bytes) == 0);
    free(now);
    free(before);
    gex_Segment_Destroy(p.segment, 0);
    c->release(c, memory);
    gex_MK_Destroy(p.kind, 0);
}

static void no_export(device_class *c) {
    place p = {.device = c, .kind = make_kind(c, 0)};
    PHASE("no export");
    c->fail(FAULT_EXPORT, 1);
    OK(gex_Segment_Create(&p.segment, client, NULL, 4096, p.kind, 0));
    c->fail(FAULT_EXPORT, 0);
    exchange(&p, 1500);
    gex_Segment_Destroy(p.segment, 0);
    gex_MK_Destroy(p.kind, 0);
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    REQUIRE(folder != NULL);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void leaves_no_descriptor(device_class *c) {
    gex_MK_t kind = make_kind(c, 0);
    void *memory = c->alloc(c, 0, 8192);
    int before = descriptors();
    PHASE("descriptors");
    for (int i = 0; i < ROUNDS; i++) {
        gex_Segment_t segment, other;
        OK(gex_Segment_Create(&segment, client, memory, 8192, kind, 0));
        CHECK(descriptors() == before); /* also none while it exists */
        OK(gex_Segment_Create(&other, client, NULL, 8192, kind, 0));
        gex_Segment_Destroy(other, 0);
        gex_Segment_Destroy(segment, 0);
    }
    CHECKF(descriptors() == before, "%s: %d descriptors, %d before", c->name, descriptors(), before);
    c->release(c, memory);
    gex_MK_Destroy(kind, 0);
}

int main(int argc, char **argv) {
    test_init("mk_dmabuf", &argc, &argv);
    devices_required();
    make_places(SPACE);
    if (has_nic()) without_the_owner();
    for (int i = 0; i < CLASSES; i++) {
        if (classes[i].devices == 0) continue;
        inside(&classes[i], 1501);
        inside(&classes[i], LONG);
        if (classes[i].fail) no_export(&classes[i]);
        if (classes[i].live) leaves_no_descriptor(&classes[i]);
        barrier();
    }
    end_places();
    return test_finish();
}
