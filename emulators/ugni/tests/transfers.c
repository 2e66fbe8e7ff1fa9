// transfers.c: what each operation moves.
#include "harness.h"

#include <string.h>

static const char *text = "the quick brown fox jumps over the lazy dog....";

static void put(struct end *a, struct end *b, gni_post_type_t type, const char *what, uint64_t bytes) {
    gni_post_descriptor_t d = descriptor(type, a, b, bytes);
    memset(b->buffer, 0, BUFFER);
    memset(a->buffer, 0, BUFFER);
    strcpy((char *)a->buffer, text);
    d.local_addr += 1;
    d.remote_addr += 3;
    gni_return_t code = transfer(a, &d);
    say("transfers", "%s: %s, \"%s\"", what, name(code), (char *)b->buffer + 3);
}

static void get(struct end *a, struct end *b, gni_post_type_t type, const char *what) {
    gni_post_descriptor_t d = descriptor(type, a, b, 16);
    memset(a->buffer, 0, BUFFER);
    strcpy((char *)b->buffer, text);
    d.remote_addr += 4;
    gni_return_t code = transfer(a, &d);
    say("transfers", "%s: %s, \"%s\"", what, name(code), (char *)a->buffer);
}

static void sync_flags(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT_W_SYNCFLAG, a, b, 11);
    gni_cq_entry_t entry;
    memset(b->buffer, 0, BUFFER);
    strcpy((char *)a->buffer, text);
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT | GNI_CQMODE_REMOTE_EVENT;
    d.sync_flag_addr = (uintptr_t)b->buffer + 64;
    d.sync_flag_value = 0x0102030405060708;
    must(transfer(a, &d) == 0, "put with flag");
    say("transfers", "put with flag: \"%s\"", (char *)b->buffer);
    must(wait_for(b->destination, &entry) == 0, "REMOTE event");
    say("transfers", "flag %lx, id at the target %u, another event: %s", *(unsigned long *)(b->buffer + 64),
        (unsigned)gni_cq_get_rem_inst_id(entry), nothing(b->destination) ? "no" : "yes");
    d.length = 0;
    d.sync_flag_value = 9;
    d.remote_addr = 0;
    say("transfers", "flag alone: %s", name(transfer(a, &d)));
    must(wait_for(b->destination, &entry) == 0, "REMOTE event");
    say("transfers", "flag %lx", *(unsigned long *)(b->buffer + 64));
}

static void cq_writes(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_CQWRITE, a, b, 0);
    gni_cq_entry_t entry;
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT | GNI_CQMODE_REMOTE_EVENT;
    d.cqwrite_value = 0xabcd123403000077;
    say("transfers", "CQ write: %s", name(transfer(a, &d)));
    must(wait_for(b->destination, &entry) == 0, "the entry");
    say("transfers", "value %lx, id %x", (unsigned long)gni_cq_get_data(entry),
        (unsigned)gni_cq_get_rem_inst_id(entry));
    say("transfers", "its descriptor: %s",
        name(GNI_GetCompleted(b->destination, entry, &(gni_post_descriptor_t *){NULL})));
}

// Chained transactions: several operations, one GLOBAL event.
static void chains(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, a, b, 4);
    gni_ct_put_post_descriptor_t puts[2] = {
        {&puts[1], a->ep, 5, (uintptr_t)b->buffer + 4, b->handle, (uintptr_t)a->buffer + 10},
        {NULL, a->ep, 3, (uintptr_t)b->buffer + 9, b->handle, (uintptr_t)a->buffer + 40},
    };
    gni_ct_get_post_descriptor_t get = {
        NULL, a->ep, 8, (uintptr_t)b->buffer + 16, b->handle, (uintptr_t)a->buffer + 100, a->handle,
    };
    gni_ct_amo_post_descriptor_t add = {
        NULL, a->ep, 8, (uintptr_t)b->buffer + 8, b->handle, (uintptr_t)a->buffer + 8, a->handle, GNI_FMA_ATOMIC_FADD,
        5,    0,
    };
    gni_cq_entry_t entry;
    memset(b->buffer, 0, BUFFER);
    memset(a->buffer, 0, BUFFER);
    strcpy((char *)a->buffer, text);
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT | GNI_CQMODE_REMOTE_EVENT;
    d.next_descr = puts;
    gni_return_t code = GNI_CtPostFma(a->ep, &d);
    if (gemini) {
        say("transfers", "chain: %s", name(code));
        return;
    }
    must(code == 0 && complete(a, &d) == 0, "chain of puts");
    say("transfers", "chain of puts: \"%s\", links are left: %s, another event: %s", (char *)b->buffer,
        d.next_descr == puts ? "yes" : "no", nothing(a->source) ? "no" : "yes");
    for (int i = 0; i < 3; i++) must(wait_for(b->destination, &entry) == 0, "REMOTE event");
    say("transfers", "a fourth REMOTE event: %s", nothing(b->destination) ? "no" : "yes");
    d.next_descr = NULL;
    d.cq_mode = GNI_CQMODE_GLOBAL_EVENT;
    must(GNI_CtPostFma(a->ep, &d) == 0, "chain of one");
    say("transfers", "chain of one: %s", name(complete(a, &d)));
    puts[1].remote_addr = (uintptr_t)b->buffer + BUFFER;
    d.next_descr = puts;
    must(GNI_CtPostFma(a->ep, &d) == 0, "chain with a failure");
    code = complete(a, &d);
    say("transfers", "chain with a failure: %s, another event: %s", name(code), nothing(a->source) ? "no" : "yes");
    puts[1].ep_hndl = NULL;
    say("transfers", "chain without endpoint: %s", name(GNI_CtPostFma(a->ep, &d)));
    puts[1] = puts[0];
    puts[1].next_descr = NULL;
    puts[0].length = 1 << 20;
    say("transfers", "long chain: %s", name(GNI_CtPostFma(a->ep, &d)));

    strcpy((char *)b->buffer, text);
    d = descriptor(GNI_POST_FMA_GET, a, b, 12);
    d.next_descr = &get;
    memset(a->buffer, 0, BUFFER);
    must(GNI_CtPostFma(a->ep, &d) == 0 && complete(a, &d) == 0, "chain of gets");
    say("transfers", "chain of gets: \"%s\", \"%s\"", (char *)a->buffer, (char *)a->buffer + 100);
    get.length = 6;
    say("transfers", "link of 6 bytes: %s", name(GNI_CtPostFma(a->ep, &d)));

    memset(b->buffer, 0, BUFFER);
    d = descriptor(GNI_POST_AMO, a, b, 8);
    d.amo_cmd = GNI_FMA_ATOMIC_FADD;
    d.first_operand = 3;
    d.next_descr = &add;
    must(GNI_CtPostFma(a->ep, &d) == 0 && complete(a, &d) == 0, "chain of AMOs");
    say("transfers", "chain of AMOs: %lu, %lu", *(unsigned long *)b->buffer, *(unsigned long *)(b->buffer + 8));
    d.type = GNI_POST_FMA_PUT_W_SYNCFLAG;
    say("transfers", "chain of another type: %s", name(GNI_CtPostFma(a->ep, &d)));
    d.type = GNI_POST_AMO;
    d.dlvr_mode = GNI_DLVMODE_ORDERED_TAIL;
    say("transfers", "chain with an ordered tail: %s", name(GNI_CtPostFma(a->ep, &d)));
}

// Many operations of random sizes and kinds, some of them to oneself.
static void many(struct end *a, struct end *b) {
    unsigned seed = 7, errors = 0;
    int i;
    for (i = 0; i < 2000; i++) {
        seed = seed * 1103515245 + 12345;
        gni_post_type_t type = (gni_post_type_t[]){GNI_POST_FMA_PUT, GNI_POST_RDMA_PUT, GNI_POST_FMA_GET,
                                                   GNI_POST_RDMA_GET}[seed >> 16 & 3];
        uint64_t bytes = 4 + (seed >> 18 & 0x7ff) * 4;
        uint64_t from = (seed >> 8 & 0xff) * 4;
        uint64_t to = (seed >> 4 & 0xff) * 4;
        memset(a->buffer, i, BUFFER);
        memset(b->buffer, ~i, BUFFER);
        gni_post_descriptor_t d = descriptor(type, a, b, bytes);
        d.local_addr += from;
        d.remote_addr += to;
        if (transfer(a, &d) != 0 || memcmp(a->buffer + from, b->buffer + to, bytes) != 0) errors++;
        if (type == GNI_POST_FMA_PUT || type == GNI_POST_RDMA_PUT) {
            if (b->buffer[to + bytes] != (uint8_t)~i) errors++;
        } else if (a->buffer[from + bytes] != (uint8_t)i) {
            errors++;
        }
    }
    say("transfers", "%d operations, %u errors", i, errors);
}

void test_transfers(void) {
    struct end a, b;
    make_pair(&a, &b, NULL);
    put(&a, &b, GNI_POST_FMA_PUT, "FMA put", 15);
    put(&a, &b, GNI_POST_FMA_PUT, "empty FMA put", 0);
    put(&a, &b, GNI_POST_RDMA_PUT, "RDMA put", 15);
    get(&a, &b, GNI_POST_FMA_GET, "FMA get");
    get(&a, &b, GNI_POST_RDMA_GET, "RDMA get");
    sync_flags(&a, &b);
    cq_writes(&a, &b);
    chains(&a, &b);
    many(&a, &b);
    destroy_pair(&a, &b);
}
