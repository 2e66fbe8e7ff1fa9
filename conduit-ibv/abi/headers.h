// What conduit-ibv and the emulator of verbs use of libibverbs, for scripts/build/ibv-bindings.sh.
#include <infiniband/verbs.h>
