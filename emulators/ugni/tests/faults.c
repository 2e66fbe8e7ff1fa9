// faults.c: what faults of the emulator look like.
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void fault_busy(void) {
    struct end a, b;
    int busy = 0, good = 0;
    make_pair(&a, &b, NULL);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
    for (int i = 0; i < 200; i++) {
        gni_return_t code = transfer(&a, &d);
        busy += code == GNI_RC_ERROR_RESOURCE;
        good += code == GNI_RC_SUCCESS;
    }
    say("busy", "of 200 posts some are refused: %s, the others succeed: %s", busy > 50 && busy < 150 ? "yes" : "no",
        good + busy == 200 ? "yes" : "no");
    destroy_pair(&a, &b);
}

void fault_errors(void) {
    gni_post_descriptor_t d;
    struct end a, b;
    make_pair(&a, &b, NULL);
    for (int i = 1; i <= 3; i++) {
        d = descriptor(GNI_POST_RDMA_PUT, &a, &b, 8);
        say("errors", "RDMA put %d: %s", i, name(transfer(&a, &d)));
        d = descriptor(GNI_POST_FMA_PUT, &a, &b, 8);
        say("errors", "FMA put %d: %s", i, name(transfer(&a, &d)));
    }
    destroy_pair(&a, &b);
}

void fault_registrations(void) {
    gni_mem_handle_t handle;
    struct end a;
    make_end(&a, 1, NULL);
    for (int i = 2; i < 6; i++) {
        gni_return_t code = GNI_MemRegister(a.nic, (uintptr_t)a.buffer, 4096, NULL, 0, -1, &handle);
        say("registrations", "registration %d: %s", i, name(code));
        if (code == 0) must(GNI_MemDeregister(a.nic, &handle) == 0, "GNI_MemDeregister");
    }
    say("registrations", "the heap: %s",
        name(GNI_MemRegister(a.nic, (uintptr_t)sbrk(0) - 4096, 4096, NULL, 0, -1, &handle)));
    destroy_end(&a);
}

// Operations overtake each other, and so do their events; nothing is lost.
void fault_reorder(void) {
    enum { MANY = 32 };
    gni_post_descriptor_t d[MANY], *done;
    gni_cq_entry_t entry;
    struct options options = {.memory = GNI_MEM_STRICT_PI_ORDERING | GNI_MEM_PI_FLUSH};
    struct end a, b;
    int swapped = 0, remote_swapped = 0, before_own_flag = 0;
    make_pair(&a, &b, &options);
    for (int round = 0; round < 20; round++) {
        memset(b.buffer, 0, 8 * MANY);
        for (int i = 0; i < MANY; i++) {
            d[i] = descriptor(GNI_POST_FMA_PUT_W_SYNCFLAG, &a, &b, 8);
            d[i].cq_mode |= GNI_CQMODE_REMOTE_EVENT;
            d[i].remote_addr = (uintptr_t)b.buffer + 4096 + 8 * i;
            d[i].sync_flag_addr = (uintptr_t)b.buffer + 8 * i;
            d[i].sync_flag_value = 1;
            must(GNI_EpSetEventData(a.ep, 0, i) == 0, "GNI_EpSetEventData");
            must(post(&a, &d[i]) == 0, "post");
        }
        for (int i = 0; i < MANY; i++) {
            must(wait_for(b.destination, &entry) == 0, "REMOTE event");
            int id = (int)gni_cq_get_rem_inst_id(entry);
            remote_swapped += id != i;
            before_own_flag += ((volatile uint64_t *)b.buffer)[id] != 1;
        }
        for (int i = 0; i < MANY; i++) {
            must(wait_for(a.source, &entry) == 0, "event");
            must(GNI_GetCompleted(a.source, entry, &done) == 0, "GNI_GetCompleted");
            swapped += done != &d[i];
        }
    }
    say("reorder", "GLOBAL events change places: %s", swapped ? "yes" : "no");
    say("reorder", "REMOTE events change places: %s", remote_swapped ? "yes" : "no");
    say("reorder", "events before their own flag: %d", before_own_flag);
    destroy_pair(&a, &b);
}

// The source is overwritten at once, which not all operations allow.
static void overwrite(const char *what, struct end *a, struct end *b, gni_post_type_t type, bool local) {
    gni_post_descriptor_t d;
    gni_cq_entry_t entry;
    int wrong = 0;
    for (int i = 0; i < 100; i++) {
        d = descriptor(type, a, b, 64);
        if (local) d.cq_mode |= GNI_CQMODE_LOCAL_EVENT;
        memset(a->buffer, 1, 64);
        memset(b->buffer, 0, 64);
        must(post(a, &d) == 0, "post");
        if (local) {
            must(wait_for(a->source, &entry) == 0, "LOCAL event");
            must(GNI_GetCompleted(a->source, entry, &(gni_post_descriptor_t *){NULL}) == 0, "GNI_GetCompleted");
        }
        memset(a->buffer, 2, 64);
        must(complete(a, &d) == 0, "GLOBAL event");
        wrong += b->buffer[0] != 1;
    }
    say("late", "%s: the target has %s", what, wrong ? "what was written afterwards" : "what was posted");
}

void fault_late(void) {
    struct options options = {.modes = GNI_CDM_MODE_DUAL_EVENTS};
    struct end a, b;
    make_pair(&a, &b, &options);
    overwrite("FMA put", &a, &b, GNI_POST_FMA_PUT, false);
    overwrite("RDMA put", &a, &b, GNI_POST_RDMA_PUT, false);
    overwrite("RDMA put, after its LOCAL event", &a, &b, GNI_POST_RDMA_PUT, true);
    destroy_pair(&a, &b);
}

static void early(const char *what, uint32_t memory) {
    struct options options = {.memory = memory};
    gni_post_descriptor_t d;
    gni_cq_entry_t entry;
    struct end a, b;
    int before = 0;
    make_pair(&a, &b, &options);
    for (int i = 0; i < 100; i++) {
        d = descriptor(GNI_POST_FMA_PUT, &a, &b, 64);
        d.cq_mode |= GNI_CQMODE_REMOTE_EVENT;
        memset(a.buffer, 1, 64);
        memset(b.buffer, 0, 64);
        must(post(&a, &d) == 0, "post");
        must(wait_for(b.destination, &entry) == 0, "REMOTE event");
        before += *(volatile uint8_t *)b.buffer != 1;
        must(complete(&a, &d) == 0, "GLOBAL event");
    }
    say("early", "%s: events before their data: %s", what, before ? "some" : "none");
    destroy_pair(&a, &b);
}

void fault_early(void) {
    early("relaxed", GNI_MEM_RELAXED_PI_ORDERING);
    early("flushed", GNI_MEM_PI_FLUSH);
    early("strict", GNI_MEM_STRICT_PI_ORDERING);
}

void fault_limits(void) {
    gni_cdm_handle_t cdm;
    gni_nic_handle_t nic;
    gni_cq_handle_t cq;
    gni_ce_handle_t engine;
    gni_mem_handle_t handle;
    uint32_t address;
    struct end a;
    make_end(&a, 1, NULL);
    for (int i = 0; i < 3; i++) {
        must(GNI_CdmCreate(20 + i, 100, 1, GNI_CDM_MODE_FMA_DEDICATED, &cdm) == 0, "GNI_CdmCreate");
        say("limits", "dedicated FMA descriptor %d: %s", i + 1, name(GNI_CdmAttach(cdm, 0, &address, &nic)));
    }
    for (int i = 2; i < 5; i++)
        say("limits", "region %d: %s", i, name(GNI_MemRegister(a.nic, (uintptr_t)a.buffer, 8, NULL, 0, -1, &handle)));
    for (int i = 3; i < 6; i++) say("limits", "queue %d: %s", i, name(GNI_CqCreate(a.nic, 8, 0, 0, NULL, NULL, &cq)));
    for (int i = 1; i < 3; i++) say("limits", "engine %d: %s", i, name(GNI_CeCreate(a.nic, &engine)));
    must(GNI_CdmDestroy(a.cdm) == 0, "GNI_CdmDestroy");
}

static gni_cq_handle_t slow;

static void pause_in_handler(gni_cq_entry_t *entry, void *context) {
    (void)entry;
    (void)context;
    pause_ms(200);
}

static void *second_thread(void *nothing_) {
    gni_cq_entry_t entry;
    (void)nothing_;
    pause_ms(50);
    GNI_CqTestEvent(slow);
    GNI_CqGetEvent(slow, &entry);
    return NULL;
}

// A thread is in a call, in a handler, while another makes one.
void fault_threads(void) {
    int status = 0;
    pid_t child = fork();
    must(child != -1, "fork");
    if (child == 0) {
        gni_cq_entry_t entry;
        pthread_t thread;
        struct end a;
        make_end(&a, 1, NULL);
        must(GNI_CqCreate(a.nic, 8, 0, 0, pause_in_handler, NULL, &slow) == 0, "GNI_CqCreate");
        must(GNI_EpCreate(a.nic, slow, &a.ep) == 0 && GNI_EpBind(a.ep, a.address, 1) == 0, "an endpoint");
        gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &a, 8);
        must(GNI_PostFma(a.ep, &d) == 0, "put");
        pthread_create(&thread, NULL, second_thread, NULL);
        wait_for(slow, &entry);
        pthread_join(thread, NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say("threads", "two threads in one domain: %s",
        WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "aborted" : "unnoticed");
}

void fault_leaks(void) {
    struct end a;
    make_end(&a, 1, NULL);
    a.ep = connect_to(&a, a.address, 1);
    fflush(stdout);
    dup2(1, 2);
    must(GNI_CdmDestroy(a.cdm) == 0, "GNI_CdmDestroy");
    make_end(&a, 2, NULL);
    destroy_end(&a);
    make_end(&a, 3, NULL);
}

static int death_of(uint32_t modes) {
    int status = 0;
    pid_t child = fork();
    must(child != -1, "fork");
    if (child == 0) {
        gni_cdm_handle_t cdm;
        struct end a;
        make_end(&a, 1, NULL);
        must(GNI_CdmDestroy(a.cdm) == 0, "GNI_CdmDestroy");
        must(GNI_CdmCreate(1, 100, 1, modes | GNI_CDM_MODE_FMA_SHARED, &cdm) == 0, "GNI_CdmCreate");
        must(GNI_CdmAttach(cdm, 0, &a.address, &a.nic) == 0, "GNI_CdmAttach");
        must(GNI_CqCreate(a.nic, 8, 0, 0, NULL, NULL, &a.source) == 0, "GNI_CqCreate");
        must(GNI_EpCreate(a.nic, a.source, &a.ep) == 0 && GNI_EpBind(a.ep, a.address, 1) == 0, "an endpoint");
        gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &a, 8);
        must(transfer(&a, &d) == GNI_RC_TRANSACTION_ERROR, "a put through a stale handle");
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// A failed operation, with and without GNI_CDM_MODE_ERR_NO_KILL.
void fault_kill(void) {
    say("kill", "with ERR_NO_KILL: %s", death_of(GNI_CDM_MODE_ERR_NO_KILL) == 0 ? "lives" : "dies");
    say("kill", "without: %s", death_of(0) == 0 ? "lives" : "dies");
}
