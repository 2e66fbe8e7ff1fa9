// domains.c: communication domains, NICs, endpoints, and stale handles.
#include "harness.h"

#include <string.h>

static void attaching(void) {
    gni_cdm_handle_t cdm, other;
    gni_nic_handle_t nic;
    uint32_t address = 0, again = 0, cpu;
    say("domains", "private modes: %s", name(GNI_CdmCreate(1, 100, 7, 0x80000000, &cdm)));
    say("domains", "dedicated and shared FMA: %s",
        name(GNI_CdmCreate(1, 100, 7, GNI_CDM_MODE_FMA_DEDICATED | GNI_CDM_MODE_FMA_SHARED, &cdm)));
    must(GNI_CdmCreate(1, 100, 7, GNI_CDM_MODE_FMA_SHARED, &cdm) == 0, "GNI_CdmCreate");
    must(GNI_CdmCreate(1, 100, 7, GNI_CDM_MODE_FMA_SHARED, &other) == 0, "GNI_CdmCreate");
    say("domains", "no such device: %s", name(GNI_CdmAttach(cdm, 17, &address, &nic)));
    say("domains", "attach: %s", name(GNI_CdmAttach(cdm, (uint32_t)-1, &address, &nic)));
    say("domains", "attach twice: %s", name(GNI_CdmAttach(cdm, 0, &again, &nic)));
    say("domains", "another domain of the same name: %s", name(GNI_CdmAttach(other, 0, &again, &nic)));
    must(GNI_CdmGetNicAddress(0, &again, &cpu) == 0, "GNI_CdmGetNicAddress");
    say("domains", "the same address: %s", address == again ? "yes" : "no");
    say("domains", "address of no device: %s", name(GNI_CdmGetNicAddress(17, &again, &cpu)));
    say("domains", "destroy: %s", name(GNI_CdmDestroy(cdm)));
    say("domains", "destroy again: %s", name(GNI_CdmDestroy(cdm)));
    say("domains", "the name is free: %s", name(GNI_CdmAttach(other, 0, &again, &nic)));
    must(GNI_CdmDestroy(other) == 0, "GNI_CdmDestroy");
}

static void endpoints(void) {
    struct end a;
    gni_ep_handle_t ep;
    gni_cq_entry_t entry;
    make_end(&a, 1, NULL);
    gni_post_descriptor_t d = descriptor(GNI_POST_FMA_PUT, &a, &a, 8);
    must(GNI_EpCreate(a.nic, a.source, &ep) == 0, "GNI_EpCreate");
    say("domains", "post before the bind: %s", name(GNI_PostFma(ep, &d)));
    say("domains", "unbind before the bind: %s", name(GNI_EpUnbind(ep)));
    say("domains", "bind: %s", name(GNI_EpBind(ep, a.address, 1)));
    say("domains", "bind twice: %s", name(GNI_EpBind(ep, a.address, 1)));
    say("domains", "queue of memory for an endpoint: %s", name(GNI_EpCreate(a.nic, a.destination, &a.ep)));
    a.ep = NULL;
    say("domains", "queue of an endpoint for memory: %s",
        name(GNI_MemRegister(a.nic, (uintptr_t)a.buffer, 4096, a.source, 0, -1, &a.handle)));
    must(GNI_PostFma(ep, &d) == 0, "GNI_PostFma");
    say("domains", "unbind with an operation outstanding: %s", name(GNI_EpUnbind(ep)));
    say("domains", "destroy a queue with endpoints: %s", name(GNI_CqDestroy(a.source)));
    must(complete(&a, &d) == 0, "a completion");
    say("domains", "unbind: %s", name(GNI_EpUnbind(ep)));
    must(GNI_EpBind(ep, a.address, 1) == 0, "GNI_EpBind");
    must(GNI_PostFma(ep, &d) == 0, "GNI_PostFma");
    say("domains", "destroy with an operation outstanding: %s", name(GNI_EpDestroy(ep)));
    pause_ms(5);
    say("domains", "its event: %s", name(GNI_CqGetEvent(a.source, &entry)));
    say("domains", "stale endpoint: %s", name(GNI_PostFma(ep, &d)));
    say("domains", "an endpoint as a queue: %s", name(GNI_CqTestEvent((gni_cq_handle_t)ep)));
    destroy_end(&a);
}

// Destroying a domain releases all that it has.
static void leftovers(void) {
    struct end a;
    gni_cq_entry_t entry;
    make_end(&a, 1, NULL);
    a.ep = connect_to(&a, a.address, 1);
    must(GNI_CdmDestroy(a.cdm) == 0, "GNI_CdmDestroy");
    say("domains", "queue of a destroyed domain: %s", name(GNI_CqGetEvent(a.source, &entry)));
    say("domains", "endpoint of a destroyed domain: %s", name(GNI_EpDestroy(a.ep)));
    say("domains", "NIC of a destroyed domain: %s", name(GNI_MemDeregister(a.nic, &a.handle)));
}

void test_domains(void) {
    attaching();
    endpoints();
    leftovers();
}
