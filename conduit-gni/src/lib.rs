//! conduit-gni of libgasnet: Cray Aries and Gemini over uGNI, with libugni opened at run time.
