//! Functions that the emulator has for programs that link to them, and that it refuses.
#![allow(non_snake_case)]

use gasnet_gni_abi as abi;

use crate::refuse::{code, refusal};

macro_rules! unsupported {
    ($($name:ident)*) => { $(
        /// Ignores its arguments, so they are not declared.
        #[no_mangle]
        extern "C" fn $name() -> abi::gni_return_t {
            let why = "the emulator does not have this function";
            code(stringify!($name), Err(refusal(abi::GNI_RC_ILLEGAL_OP, why)))
        }
    )* };
}

// Jobs and devices, which a system's administrator configures.
unsupported! {
    GNI_SuspendJob GNI_ResumeJob GNI_ConfigureNTT GNI_ConfigureJob GNI_ConfigureNTTandJob GNI_SetJobResInfo
    GNI_GetNttGran GNI_SetBIConfig GNI_GetBIConfig GNI_BISyncWait GNI_GetNicStat GNI_ResetNicStat
}
// Registrations of other kinds.
unsupported! { GNI_SetMddResources GNI_RebuildMemHndl GNI_MemQueryHndls }
// Chains of CQ writes.
unsupported! { GNI_CtPostCqWrite }
// Message queues.
unsupported! {
    GNI_MsgqInit GNI_MsgqRelease GNI_MsgqIdle GNI_MsgqGetConnAttrs GNI_MsgqConnect GNI_MsgqConnRelease GNI_MsgqSend
    GNI_MsgqProgress GNI_MsgqSize
}
// Functions of other versions.
unsupported! {
    GNI_CdmCheckpoint GNI_CdmResume GNI_CdmHold GNI_CdmRelease GNI_GetCapabilities GNI_ValidateCapabilities
    GNI_DqueueInit GNI_DqueueFini GNI_DqueueConnect GNI_DqueuePut GNI_DqueueProgress GNI_ConfigureJobFd
    GNI_SetDeviceOrbMMR
}
