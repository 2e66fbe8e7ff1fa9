// atomics.c: every command on examples, and what is refused.
#include "harness.h"

#include <string.h>

static uint64_t bits(double value) {
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static uint64_t short_bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

// An AMO on the second half of b's buffer; prints what is returned and what is there afterwards.
static void amo(struct end *a, struct end *b, const char *what, uint32_t command, uint64_t before, uint64_t one,
                uint64_t two) {
    bool is_short = command & 0x200, fetches = (command & 0x100) == 0;
    gni_post_descriptor_t d = descriptor(GNI_POST_AMO, a, b, is_short ? 4 : 8);
    uint64_t *target = (uint64_t *)(b->buffer + 512), *result = (uint64_t *)a->buffer;
    d.amo_cmd = command;
    d.first_operand = one;
    d.second_operand = two;
    d.remote_addr = (uintptr_t)target;
    target[0] = before;
    target[1] = 0xfeed;
    result[0] = 0xeeeeeeeeeeeeeeee;
    if (!fetches) memset(&d.local_mem_hndl, 0x5a, sizeof d.local_mem_hndl);
    gni_return_t code = transfer(a, &d);
    say("atomics", "%s: %s, returned %lx, now %lx%s", what, name(code), (unsigned long)result[0],
        (unsigned long)target[0], target[1] == 0xfeed ? "" : ", neighbour changed");
}

static void first_generation(struct end *a, struct end *b) {
    amo(a, b, "FADD", GNI_FMA_ATOMIC_FADD, 40, 5, 0);
    amo(a, b, "ADD", GNI_FMA_ATOMIC_ADD, 40, -5UL, 0);
    amo(a, b, "FAND", GNI_FMA_ATOMIC_FAND, 0xff, 0x3c, 0);
    amo(a, b, "FOR", GNI_FMA_ATOMIC_FOR, 0xf0, 0x0f, 0);
    amo(a, b, "FXOR cached", GNI_FMA_ATOMIC_FXOR_C, 0xff, 0x0f, 0);
    amo(a, b, "FAX", GNI_FMA_ATOMIC_FAX, 0xff, 0x0f, 0xf0);
    amo(a, b, "FCSWAP that finds", GNI_FMA_ATOMIC_CSWAP, 7, 7, 9);
    amo(a, b, "FCSWAP that does not", GNI_FMA_ATOMIC_CSWAP, 8, 7, 9);
    amo(a, b, "AX without fetch", GNI_FMA_ATOMIC_AX, 0xff, 0x0f, 0xf0);
}

static void second_generation(struct end *a, struct end *b) {
    uint64_t tail = 0xabcdabcd00000000;
    amo(a, b, "FSWAP", GNI_FMA_ATOMIC2_FSWAP, 1, 2, 0);
    amo(a, b, "SWAP_S", GNI_FMA_ATOMIC2_SWAP_S, tail | 1, 2, 0);
    amo(a, b, "FCSWAP_S", GNI_FMA_ATOMIC2_FCSWAP_S, tail | 5, 5, 6);
    amo(a, b, "FIMIN_S", GNI_FMA_ATOMIC2_FIMIN_S, tail | 5, 0xfffffffe, 0);
    amo(a, b, "FIMAX", GNI_FMA_ATOMIC2_FIMAX, -1UL, 1, 0);
    amo(a, b, "FIADD_S that wraps", GNI_FMA_ATOMIC2_FIADD_S, tail | 0xffffffff, 2, 0);
    amo(a, b, "IADD cached", GNI_FMA_ATOMIC2_IADD_C, 1, 2, 0);
    amo(a, b, "FFPADD", GNI_FMA_ATOMIC2_FFPADD, bits(1.5), bits(2.25), 0);
    amo(a, b, "FFPMIN_S", GNI_FMA_ATOMIC2_FFPMIN_S, tail | short_bits(2), short_bits(-3), 0);
    amo(a, b, "FPMAX", GNI_FMA_ATOMIC2_FPMAX, bits(2), bits(-3), 0);
    amo(a, b, "FAND_S", GNI_FMA_ATOMIC2_FAND_S, tail | 0xff, 0x3c, 0);
    amo(a, b, "FAX_SC", GNI_FMA_ATOMIC2_FAX_SC, tail | 0xff, 0x0f, 0xf0);
}

static void refused(struct end *a, struct end *b) {
    gni_post_descriptor_t d = descriptor(GNI_POST_AMO, a, b, 0);
    d.amo_cmd = GNI_FMA_ATOMIC_FADD;
    say("atomics", "without length: %s", name(post(a, &d)));
    d.length = 16;
    say("atomics", "with the length of two operands: %s", name(post(a, &d)));
    d.amo_cmd = GNI_FMA_ATOMIC_AX;
    say("atomics", "with the length of the two operands of AX: %s", name(transfer(a, &d)));
    d.amo_cmd = GNI_FMA_ATOMIC_FADD;
    d.length = 8;
    d.remote_addr += 4;
    say("atomics", "misaligned target: %s", name(post(a, &d)));
    d.remote_addr += 4;
    d.local_addr += 4;
    say("atomics", "misaligned result: %s", name(post(a, &d)));
    d.local_addr += 4;
    d.amo_cmd = GNI_FMA_ATOMIC_AX;
    say("atomics", "two operands, aligned to 8: %s", name(post(a, &d)));
    d.amo_cmd = (gni_fma_cmd_type_t)0xffff;
    say("atomics", "no such command: %s", name(post(a, &d)));
    memset(&d.local_mem_hndl, 0, sizeof d.local_mem_hndl);
    d.amo_cmd = GNI_FMA_ATOMIC_FADD;
    say("atomics", "result in memory that is not registered: %s", name(post(a, &d)));
}

void test_atomics(void) {
    struct end a, b;
    make_pair(&a, &b, NULL);
    first_generation(&a, &b);
    if (gemini) amo(&a, &b, "FSWAP", GNI_FMA_ATOMIC2_FSWAP, 1, 2, 0);
    else second_generation(&a, &b);
    refused(&a, &b);
    destroy_pair(&a, &b);
}
