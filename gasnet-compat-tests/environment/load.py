"""Loads the shared library with RTLD_LOCAL, starts a job of one rank through ctypes, passes a
barrier and leaves."""

import ctypes
import os
import sys

libraries = [ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW) for path in sys.argv[1:]]
for number, library in enumerate(libraries):
    client, endpoint, team = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    initialise = library.gex_Client_Init
    status = initialise(
        ctypes.byref(client), ctypes.byref(endpoint), ctypes.byref(team), b"PYTHON", None, None, ctypes.c_uint32(0)
    )
    print("initialised", number, status, flush=True)
library = libraries[0]
barrier = library.gex_Coll_BarrierNB
barrier.argtypes, barrier.restype = [ctypes.c_void_p, ctypes.c_uint32], ctypes.c_void_p
wait = library.gex_Event_Wait
wait.argtypes = [ctypes.c_void_p]
wait(barrier(team, 0))
library.gasnet_exit(0)
