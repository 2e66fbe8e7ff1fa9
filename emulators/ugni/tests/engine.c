// engine.c: the collective engine: a root with two leaves of its own and an engine with two below.
#include "harness.h"

#include <string.h>

enum { LEAVES = 4 };

struct leaf {
    struct end end;
    gni_post_descriptor_t d;
    gni_ce_result_t *result;
};

struct tree {
    struct leaf leaves[LEAVES];
    gni_ce_handle_t engines[2];
    gni_ep_handle_t links[2], children[LEAVES];
    uint32_t ids[2];
};

static void make_tree(struct tree *tree, uint32_t modes) {
    memset(tree, 0, sizeof *tree);
    for (int i = 0; i < LEAVES; i++) make_end(&tree->leaves[i].end, 10 + i, NULL);
    for (int i = 0; i < 2; i++) {
        must(GNI_CeCreate(tree->leaves[2 * i].end.nic, &tree->engines[i]) == 0, "GNI_CeCreate");
        must(GNI_CeGetId(tree->engines[i], &tree->ids[i]) == 0, "GNI_CeGetId");
    }
    for (int i = 0; i < 2; i++) {
        struct end *leader = &tree->leaves[2 * i].end, *other = &tree->leaves[2 * i + 1].end;
        // The link between the engines: of the parent to its child 2, of the child to its parent.
        tree->links[i] = connect_to(leader, tree->leaves[2 - 2 * i].end.address, 12 - 2 * i);
        must(GNI_EpSetCeAttr(tree->links[i], tree->ids[1 - i], 2, GNI_CE_CHILD_VCE) == 0, "GNI_EpSetCeAttr");
        leader->ep = connect_to(leader, leader->address, leader->instance);
        tree->children[2 * i] = leader->ep;
        tree->children[2 * i + 1] = connect_to(leader, other->address, other->instance);
        must(GNI_EpSetCeAttr(tree->children[2 * i], 0, 0, GNI_CE_CHILD_PE) == 0, "GNI_EpSetCeAttr");
        must(GNI_EpSetCeAttr(tree->children[2 * i + 1], 0, 1, GNI_CE_CHILD_PE) == 0, "GNI_EpSetCeAttr");
        gni_ep_handle_t list[3] = {tree->children[2 * i], tree->children[2 * i + 1], tree->links[0]};
        must(GNI_CeConfigure(tree->engines[i], list, i == 0 ? 3 : 2, i == 0 ? NULL : tree->links[1], leader->source,
                             modes) == 0,
             "GNI_CeConfigure");
        other->ep = connect_to(other, leader->address, leader->instance);
        must(GNI_EpSetCeAttr(leader->ep, tree->ids[i], 0, GNI_CE_CHILD_PE) == 0, "GNI_EpSetCeAttr");
        must(GNI_EpSetCeAttr(other->ep, tree->ids[i], 1, GNI_CE_CHILD_PE) == 0, "GNI_EpSetCeAttr");
    }
}

static void destroy_tree(struct tree *tree) {
    for (int i = 0; i < 2; i++) {
        must(GNI_EpDestroy(tree->links[i]) == 0, "GNI_EpDestroy");
        must(GNI_EpDestroy(tree->children[2 * i + 1]) == 0, "GNI_EpDestroy");
        must(GNI_CeDestroy(tree->engines[i]) == 0, "GNI_CeDestroy");
    }
    for (int i = 0; i < LEAVES; i++) destroy_end(&tree->leaves[i].end);
}

static gni_return_t join(struct leaf *leaf, uint32_t command, uint32_t mode, uint64_t one, uint64_t two) {
    leaf->d = descriptor(GNI_POST_CE, &leaf->end, &leaf->end, 0);
    leaf->result = (gni_ce_result_t *)(leaf->end.buffer + 32);
    leaf->d.local_addr = (uintptr_t)leaf->result;
    leaf->d.first_operand = one;
    leaf->d.second_operand = two;
    leaf->d.ce_cmd = command;
    leaf->d.ce_mode = mode;
    leaf->d.ce_red_id = 0;
    leaf->result->control = 0;
    return transfer(&leaf->end, &leaf->d);
}

static gni_return_t result_of(struct leaf *leaf) {
    gni_return_t code;
    for (int i = 0; i < 1000 && (code = GNI_CeCheckResult(leaf->result, 0)) == GNI_RC_NOT_DONE; i++) pause_ms(1);
    return code;
}

static void reduce(struct tree *tree, const char *what, uint32_t command, uint32_t mode,
                   const uint64_t (*operands)[2]) {
    for (int i = 0; i < LEAVES; i++) {
        if (i == LEAVES - 1)
            say("engine", "%s, one missing: %s", what, name(GNI_CeCheckResult(tree->leaves[0].result, 0)));
        must(join(&tree->leaves[i], command, mode, operands[i][0], operands[i][1]) == 0, "join");
    }
    for (int i = 0; i < LEAVES; i++) {
        gni_return_t code = result_of(&tree->leaves[i]);
        gni_ce_result_t *result = tree->leaves[i].result;
        say("engine", "%s, leaf %d: %s, %lx %lx", what, i, name(code), (unsigned long)result->result1,
            (unsigned long)result->result2);
    }
}

static void errors(struct tree *tree) {
    gni_cq_entry_t entry = 0;
    must(join(&tree->leaves[0], GNI_FMA_CE_AND, 0, 1, 0) == 0, "join");
    say("engine", "join twice: %s", name(join(&tree->leaves[0], GNI_FMA_CE_AND, 0, 1, 0)));
    must(join(&tree->leaves[1], GNI_FMA_CE_IADD, 0, 1, 0) == 0, "join");
    for (int i = 2; i < LEAVES; i++) must(join(&tree->leaves[i], GNI_FMA_CE_AND, 0, 1, 0) == 0, "join");
    say("engine", "different commands: %s, status %lx", name(result_of(&tree->leaves[3])),
        (unsigned long)gni_ce_res_get_status(tree->leaves[3].result));
    gni_return_t code = wait_for(tree->leaves[0].end.source, &entry);
    say("engine", "event of the error: %s, status %lx", name(code), (unsigned long)gni_cq_get_status(entry));
    wait_for(tree->leaves[2].end.source, &entry);
    tree->leaves[0].d.ce_cmd = (gni_ce_cmd_type_t)0x77;
    say("engine", "no such command: %s", name(post(&tree->leaves[0].end, &tree->leaves[0].d)));
    tree->leaves[0].d.ce_cmd = GNI_FMA_CE_AND;
    tree->leaves[0].d.local_addr += 8;
    say("engine", "misaligned result: %s", name(post(&tree->leaves[0].end, &tree->leaves[0].d)));
}

void test_engine(void) {
    static const uint64_t ones[LEAVES][2] = {{3, 0}, {7, 0}, {11, 0}, {15, 0}},
                          sums[LEAVES][2] = {{1, 10}, {2, 20}, {3, 30}, {4, 40}};
    gni_ce_handle_t engine;
    struct tree tree;
    if (gemini) {
        struct end a;
        make_end(&a, 1, NULL);
        say("engine", "on Gemini: %s", name(GNI_CeCreate(a.nic, &engine)));
        destroy_end(&a);
        return;
    }
    make_tree(&tree, GNI_CE_MODE_CQE_ONERR | GNI_CE_MODE_ROUND_ZERO);
    reduce(&tree, "AND", GNI_FMA_CE_AND, 0, ones);
    reduce(&tree, "IADD of two", GNI_FMA_CE_IADD, GNI_CEMODE_TWO_OP, sums);
    errors(&tree);
    destroy_tree(&tree);
}
