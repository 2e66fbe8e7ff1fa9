// messages.c: SMSG mailboxes, datagrams, and completion channels.
#include "harness.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { CREDITS = 4, LONGEST = 100 };

static gni_smsg_attr_t mailbox(const struct end *end) {
    gni_smsg_attr_t attr = {.msg_type = GNI_SMSG_TYPE_MBOX_AUTO_RETRANSMIT,
                            .msg_buffer = end->buffer,
                            .buff_size = 4096,
                            .mem_hndl = end->handle,
                            .mbox_offset = 1024,
                            .mbox_maxcredit = CREDITS,
                            .msg_maxsize = LONGEST};
    return attr;
}

static gni_return_t send_to(struct end *end, const char *text, uint32_t bytes, uint32_t id) {
    return GNI_SmsgSendWTag(end->ep, (void *)text, bytes, NULL, 0, id, 0);
}

static gni_return_t next(struct end *end) {
    uint8_t tag = GNI_SMSG_ANY_TAG;
    return GNI_SmsgGetNextWTag(end->ep, &(void *){NULL}, &tag);
}

static void smsg(void) {
    gni_cq_entry_t entry;
    unsigned size = 0;
    uint8_t tag;
    void *message;
    struct end a, b;
    int i;
    make_pair(&a, &b, NULL);
    gni_smsg_attr_t mine = mailbox(&a);
    gni_smsg_attr_t other = mailbox(&b);
    must(GNI_SmsgBufferSizeNeeded(&mine, &size) == 0, "GNI_SmsgBufferSizeNeeded");
    say("messages", "room for all credits: %s", size >= CREDITS * LONGEST ? "yes" : "no");
    say("messages", "send before the mailbox is there: %s", name(send_to(&a, "x", 1, 1)));
    must(GNI_SmsgInit(a.ep, &mine, &other) == 0 && GNI_SmsgInit(b.ep, &other, &mine) == 0, "GNI_SmsgInit");
    say("messages", "nothing there: %s", name(next(&b)));
    say("messages", "release of nothing: %s", name(GNI_SmsgRelease(b.ep)));
    for (i = 0; i < 50; i++) {
        uint32_t number = i;
        must(GNI_SmsgSendWTag(a.ep, &number, sizeof number, "payload", 8, i, i % 3) == 0, "GNI_SmsgSendWTag");
        must(wait_for(a.source, &entry) == 0, "event of the sender");
        must(gni_cq_get_msg_id(entry) == (uint64_t)i && gni_cq_get_type(entry) == GNI_CQ_EVENT_TYPE_SMSG, "its id");
        must(wait_for(b.destination, &entry) == 0 && gni_cq_get_rem_inst_id(entry) == 1, "event of the receiver");
        tag = GNI_SMSG_ANY_TAG;
        must(GNI_SmsgGetNextWTag(b.ep, &message, &tag) == 0 && tag == i % 3, "message");
        must(memcmp(message, &number, 4) == 0 && strcmp((char *)message + 4, "payload") == 0, "header and data");
        must(GNI_SmsgRelease(b.ep) == 0, "GNI_SmsgRelease");
    }
    say("messages", "messages: %d", i);
    for (i = 0; i < 10; i++) {
        gni_return_t code = send_to(&a, "x", 2, i);
        if (code == 0) continue;
        say("messages", "sent without release: %d, then %s", i, name(code));
        break;
    }
    say("messages", "a long one: %s", name(send_to(&a, (char *)a.buffer, LONGEST + 64, i)));
    tag = 5;
    say("messages", "another tag: %s", name(GNI_SmsgGetNextWTag(b.ep, &message, &tag)));
    must(next(&b) == 0, "message");
    say("messages", "next without release: %s", name(next(&b)));
    must(GNI_SmsgRelease(b.ep) == 0, "GNI_SmsgRelease");
    say("messages", "a credit is back: %s", name(send_to(&a, "x", 2, i)));
    destroy_pair(&a, &b);
}

static void datagrams(void) {
    gni_post_state_t state;
    gni_ep_handle_t wildcard;
    char to_a[16] = "", to_b[16] = "";
    uint32_t address = 0, instance = 0;
    uint64_t id = 0;
    struct end a, b;
    make_pair(&a, &b, NULL);
    say("messages", "datagram that is not posted: %s",
        name(GNI_EpPostDataTestById(a.ep, 5, &state, &address, &instance)));
    must(GNI_EpPostDataWId(a.ep, "from a", 7, to_a, 16, 5) == 0, "GNI_EpPostDataWId");
    say("messages", "a second one: %s", name(GNI_EpPostDataWId(a.ep, "from a", 7, to_a, 16, 5)));
    must(GNI_EpPostDataTestById(a.ep, 5, &state, &address, &instance) == 0, "GNI_EpPostDataTestById");
    say("messages", "state: %d", state);
    say("messages", "wait in vain: %s", name(GNI_EpPostDataWaitById(a.ep, 5, 2, &state, &address, &instance)));
    must(GNI_EpCreate(b.nic, NULL, &wildcard) == 0, "GNI_EpCreate");
    must(GNI_EpPostDataWId(wildcard, "from b", 7, to_b, 16, 77) == 0, "GNI_EpPostDataWId");
    must(GNI_PostDataProbeById(b.nic, &id) == 0, "GNI_PostDataProbeById");
    say("messages", "probed: id %d", (int)id);
    must(GNI_EpPostDataTestById(wildcard, 77, &state, &address, &instance) == 0, "GNI_EpPostDataTestById");
    say("messages", "state: %d, from %u: \"%s\"", state, instance, to_b);
    must(GNI_EpPostDataWaitById(a.ep, 5, 1000, &state, &address, &instance) == 0, "GNI_EpPostDataWaitById");
    say("messages", "state: %d, from %u: \"%s\"", state, instance, to_a);
    say("messages", "nothing left: %s", name(GNI_PostDataProbeById(b.nic, &id)));
    say("messages", "of 129 bytes: %s", name(GNI_EpPostData(a.ep, a.buffer, 129, to_a, 16)));
    must(GNI_EpPostData(a.ep, NULL, 0, NULL, 0) == 0, "GNI_EpPostData");
    say("messages", "cancel: %s", name(GNI_EpPostDataCancel(a.ep)));
    say("messages", "cancel again: %s", name(GNI_EpPostDataCancel(a.ep)));
    must(GNI_EpDestroy(wildcard) == 0, "GNI_EpDestroy");
    destroy_pair(&a, &b);
}

static void channels(void) {
    gni_comp_chan_handle_t channel;
    gni_cq_handle_t cq, rung = NULL;
    gni_cq_entry_t entry;
    struct pollfd wait = {.events = POLLIN};
    struct end a;
    make_end(&a, 1, NULL);
    must(GNI_CqCreate(a.nic, 8, 0, GNI_CQ_BLOCKING, NULL, NULL, &cq) == 0, "GNI_CqCreate");
    must(GNI_CompChanCreate(a.nic, &channel) == 0 && GNI_CompChanFd(channel, &wait.fd) == 0, "a channel");
    say("messages", "arm without channel: %s", name(GNI_CqArmCompChan(&cq, 1)));
    say("messages", "attach: %s", name(GNI_CqAttachCompChan(cq, channel)));
    must(GNI_EpCreate(a.nic, cq, &a.ep) == 0 && GNI_EpBind(a.ep, a.address, 1) == 0, "an endpoint");
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &a, 8);
    for (int i = 0; i < 2; i++) {
        must(GNI_PostFma(a.ep, &d) == 0, "put");
        while (GNI_CqTestEvent(cq) == GNI_RC_NOT_DONE) usleep(100);
        say("messages", "readable without being armed: %s", poll(&wait, 1, 10) == 1 ? "yes" : "no");
        must(GNI_CqArmCompChan(&cq, 1) == 0, "GNI_CqArmCompChan");
        say("messages", "armed after an event: %s", poll(&wait, 1, 10) == 1 ? "readable" : "silent");
        must(wait_for(cq, &entry) == 0, "event");
        must(GNI_GetCompleted(cq, entry, &(gni_post_descriptor_t *){NULL}) == 0, "GNI_GetCompleted");
        must(GNI_PostFma(a.ep, &d) == 0, "put");
        say("messages", "armed: %s", poll(&wait, 1, 1000) == 1 ? "readable" : "silent");
        say("messages", "event: %s", name(GNI_CompChanGetEvent(channel, &rung)));
        say("messages", "of the queue: %s, another: %s", rung == cq ? "yes" : "no",
            name(GNI_CompChanGetEvent(channel, &rung)));
        must(wait_for(cq, &entry) == 0, "event");
        must(GNI_GetCompleted(cq, entry, &(gni_post_descriptor_t *){NULL}) == 0, "GNI_GetCompleted");
    }
    must(GNI_CompChanDestroy(channel) == 0, "GNI_CompChanDestroy");
    must(GNI_EpDestroy(a.ep) == 0 && GNI_CqDestroy(cq) == 0, "the rest");
    a.ep = NULL;
    destroy_end(&a);
}

void test_messages(void) {
    smsg();
    datagrams();
    channels();
}
