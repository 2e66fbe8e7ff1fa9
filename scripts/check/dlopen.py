"""A job of an interpreter: opens the shared library that the argument names, its names kept
local."""

import ctypes
import os
import sys

lib = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_LOCAL)
client, ep, tm = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
lib.gex_Client_Init.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_char_p] + [ctypes.c_void_p] * 2 + [ctypes.c_uint32]
lib.gex_TM_QuerySize.argtypes = [ctypes.c_void_p]
lib.gex_TM_QueryRank.argtypes = [ctypes.c_void_p]
lib.gasnetx_System_QueryConduit.restype = ctypes.c_char_p
status = lib.gex_Client_Init(ctypes.byref(client), ctypes.byref(ep), ctypes.byref(tm), b"PYTHON", None, None, 0)
if status != 0:
    sys.exit(1)
if lib.gex_TM_QueryRank(tm) == 0:
    print(f"hello from {lib.gex_TM_QuerySize(tm)} ranks over {lib.gasnetx_System_QueryConduit().decode()}", flush=True)
lib.gasnet_exit(0)
