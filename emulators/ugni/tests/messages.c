// messages.c: SMSG mailboxes and datagrams.
#include "harness.h"
void test_messages(void) {}
