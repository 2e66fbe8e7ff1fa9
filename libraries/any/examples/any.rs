//! libgasnet, the universal library.

use gasnet_conduit_any as _;
