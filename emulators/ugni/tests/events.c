// events.c: requests, completion queues, their overrun, and what events say.
#include "harness.h"

#include <string.h>

static void requests(bool dual) {
    struct options options = {.modes = dual ? GNI_CDM_MODE_DUAL_EVENTS : 0, .source = 8};
    gni_post_descriptor_t d[16], *done;
    gni_cq_entry_t entry;
    gni_return_t code = 0;
    struct end a, b;
    int posted;
    make_pair(&a, &b, &options);
    for (posted = 0; posted < 16; posted++) {
        d[posted] = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
        code = post(&a, &d[posted]);
        if (code != 0) break;
    }
    say("events", "requests of 8 entries%s: %d, then %s", dual ? " with dual events" : "", posted, name(code));
    must(wait_for(a.source, &entry) == 0, "an event");
    say("events", "after an event that is not completed: %s", name(post(&a, &d[posted])));
    must(GNI_GetCompleted(a.source, entry, &done) == 0, "GNI_GetCompleted");
    say("events", "after its completion: %s", name(post(&a, &d[posted])));
    say("events", "completed twice: %s", name(GNI_GetCompleted(a.source, entry, &done)));
    destroy_pair(&a, &b);
}

static void silent(void) {
    struct options options = {.source = 2};
    struct end a, b;
    int good = 0;
    make_pair(&a, &b, &options);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    d.cq_mode = GNI_CQMODE_SILENT;
    for (int i = 0; i < 10; i++) good += post(&a, &d) == 0;
    say("events", "silent posts: %d, events: %s", good, nothing(a.source) ? "none" : "some");
    destroy_pair(&a, &b);
}

static void dual_events(void) {
    struct options options = {.modes = GNI_CDM_MODE_DUAL_EVENTS};
    gni_post_descriptor_t *done;
    gni_cq_entry_t first, second;
    struct end a, b;
    make_pair(&a, &b, &options);
    gni_post_descriptor_t d = descriptor(GNI_POST_RDMA_PUT, &a, &b, 64);
    d.cq_mode = GNI_CQMODE_LOCAL_EVENT | GNI_CQMODE_GLOBAL_EVENT;
    must(post(&a, &d) == 0, "post");
    must(d.status == GNI_RC_NOT_DONE, "status");
    must(wait_for(a.source, &first) == 0, "the first event");
    must(GNI_GetCompleted(a.source, first, &done) == 0, "GNI_GetCompleted");
    say("events", "first: the same descriptor: %s, completed %x", done == &d ? "yes" : "no", d.cq_mode_complete);
    say("events", "unbind between the two: %s", name(GNI_EpUnbind(a.ep)));
    must(wait_for(a.source, &second) == 0, "the second event");
    must(GNI_GetCompleted(a.source, second, &done) == 0, "GNI_GetCompleted");
    say("events", "second: the same descriptor: %s, completed %x", done == &d ? "yes" : "no", d.cq_mode_complete);
    d.cq_mode = GNI_CQMODE_LOCAL_EVENT | GNI_CQMODE_REMOTE_EVENT;
    say("events", "LOCAL and REMOTE: %s", name(transfer(&a, &d)));
    must(wait_for(b.destination, &second) == 0, "REMOTE event");
    say("events", "more events: %s", nothing(a.source) ? "none" : "some");
    destroy_pair(&a, &b);
}

// Entries that the emulator made, in a queue that is too small for them.
static void overrun(void) {
    struct options options = {.destination = 4};
    gni_cq_entry_t entry;
    struct end a, b;
    make_pair(&a, &b, &options);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
    for (int i = 0; i < 50; i++) {
        must(GNI_EpSetEventData(a.ep, 5, i) == 0, "GNI_EpSetEventData");
        must(transfer(&a, &d) == 0, "a put whose target's queue is full");
    }
    while (GNI_CqTestEvent(b.destination) == GNI_RC_NOT_DONE) pause_ms(1);
    pause_ms(2);
    say("events", "test of a queue that has overrun: %s", name(GNI_CqTestEvent(b.destination)));
    for (int i = 0; i < 4; i++) {
        gni_return_t code = GNI_CqGetEvent(b.destination, &entry);
        say("events", "entry %d: %s, overrun %u", i, name(code), (unsigned)gni_cq_overrun(entry));
    }
    say("events", "then: %s", name(GNI_CqGetEvent(b.destination, &entry)));
    must(transfer(&a, &d) == 0, "put");
    say("events", "afterwards: %s", name(wait_for(b.destination, &entry)));
    destroy_pair(&a, &b);
}

static void event_data(void) {
    gni_cq_entry_t entry;
    struct end a, b;
    make_pair(&a, &b, NULL);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
    must(post(&a, &d) == 0, "put");
    must(GNI_EpSetEventData(a.ep, 0x12345678, 0x87654321) == 0, "GNI_EpSetEventData");
    must(wait_for(a.source, &entry) == 0, "event");
    must(GNI_GetCompleted(a.source, entry, &(gni_post_descriptor_t *){NULL}) == 0, "GNI_GetCompleted");
    say("events", "id of the source's event: %u, type %u", (unsigned)gni_cq_get_inst_id(entry),
        (unsigned)gni_cq_get_type(entry));
    must(wait_for(b.destination, &entry) == 0, "event");
    say("events", "id of the target's event: %u", (unsigned)gni_cq_get_rem_inst_id(entry));
    must(post(&a, &d) == 0, "put");
    must(wait_for(a.source, &entry) == 0, "event");
    must(GNI_GetCompleted(a.source, entry, &(gni_post_descriptor_t *){NULL}) == 0, "GNI_GetCompleted");
    say("events", "other ids: %s", gni_cq_get_inst_id(entry) == (gemini ? 0x12345678 : 0x345678) ? "right" : "wrong");
    must(wait_for(b.destination, &entry) == 0, "event");
    say("events", "id of 32 bits at the target: %x", (unsigned)gni_cq_get_rem_inst_id(entry));
    destroy_pair(&a, &b);
}

static void no_queue(void) {
    struct options options = {.no_destination = true};
    gni_cq_entry_t entry;
    gni_ep_handle_t ep;
    struct end a, b;
    make_pair(&a, &b, &options);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
    say("events", "REMOTE event of memory without queue: %s", name(transfer(&a, &d)));
    must(GNI_EpCreate(a.nic, NULL, &ep) == 0, "GNI_EpCreate");
    must(GNI_EpBind(ep, b.address, b.instance) == 0, "GNI_EpBind");
    say("events", "GLOBAL event of an endpoint without queue: %s", name(GNI_PostFma(ep, &d)));
    must(GNI_EpDestroy(ep) == 0, "GNI_EpDestroy");
    say("events", "entry of an empty queue: %s", name(GNI_CqGetEvent(a.source, &entry)));
    destroy_pair(&a, &b);
}

static void count_entry(gni_cq_entry_t *entry, void *context) {
    must(entry != NULL, "an entry");
    ++*(int *)context;
}

static void waiting(void) {
    gni_cq_handle_t cqs[2], physical;
    gni_cq_entry_t entry;
    uint32_t which = 7;
    int calls = 0;
    struct end a;
    make_end(&a, 1, NULL);
    must(GNI_CqCreate(a.nic, 8, 0, GNI_CQ_BLOCKING, count_entry, &calls, &cqs[0]) == 0, "GNI_CqCreate");
    must(GNI_CqCreate(a.nic, 8, 0, GNI_CQ_BLOCKING, NULL, NULL, &cqs[1]) == 0, "GNI_CqCreate");
    say("events", "blocking and emulated: %s",
        name(GNI_CqCreate(a.nic, 8, 0, GNI_CQ_BLOCKING | GNI_CQ_EMULATED, NULL, NULL, &(gni_cq_handle_t){NULL})));
    must(GNI_CqCreate(a.nic, 8, 0, GNI_CQ_BLOCKING | GNI_CQ_PHYS_PAGES, NULL, NULL, &physical) == 0, "GNI_CqCreate");
    must(GNI_CqDestroy(physical) == 0, "GNI_CqDestroy");
    must(GNI_EpCreate(a.nic, cqs[0], &a.ep) == 0, "GNI_EpCreate");
    must(GNI_EpBind(a.ep, a.address, 1) == 0, "GNI_EpBind");
    say("events", "monitor of a queue that does not block: %s", name(GNI_CqVectorMonitor(&a.source, 1, 1, &which)));
    say("events", "monitor in vain: %s", name(GNI_CqVectorMonitor(cqs, 1, 2, &which)));
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &a, 8);
    must(GNI_PostFma(a.ep, &d) == 0, "put");
    cqs[1] = cqs[0];
    say("events", "monitor: %s", name(GNI_CqVectorMonitor(cqs, 2, 1000, &which)));
    say("events", "monitored, queue %u", which);
    must(GNI_CqGetEvent(cqs[which], &entry) == 0, "GNI_CqGetEvent");
    say("events", "calls of the handler: %d", calls);
    must(GNI_EpDestroy(a.ep) == 0, "GNI_EpDestroy");
    a.ep = NULL;
    must(GNI_CqDestroy(cqs[0]) == 0, "GNI_CqDestroy");
    destroy_end(&a);
}

void test_events(void) {
    requests(false);
    requests(true);
    silent();
    dual_events();
    overrun();
    event_data();
    no_queue();
    waiting();
}
