//! Loaded device code and its kernels.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cajeta_plugin_api::{Answer, Fault};
use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUmodule, cuFuncSetAttribute, cuLaunchKernel, cuModuleGetFunction,
    cuModuleLoadData, cuModuleUnload,
};

use super::context::Context;
use super::error::check;
use super::stream::Stream;

/// An object loaded into a context.
pub(crate) struct Module {
    context: Arc<Context>,
    handle: CUmodule,
}

// SAFETY: a module handle may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads an object; `name` is for messages.
    pub(crate) fn load(context: &Arc<Context>, code: &[u8], name: &str) -> Answer<Arc<Module>> {
        context.bind()?;
        let mut handle: CUmodule = std::ptr::null_mut();
        // SAFETY: `code` is a whole object of ours, whose length the driver reads from its header.
        let loaded = unsafe { cuModuleLoadData(&raw mut handle, code.as_ptr().cast::<c_void>()) };
        check(loaded, &format!("loading device code {name}"))?;
        Ok(Arc::new(Module { context: Arc::clone(context), handle }))
    }

    /// One of its kernels.
    pub(crate) fn function(self: &Arc<Module>, name: &str) -> Answer<Function> {
        let symbol = CString::new(name).map_err(|_| Fault::internal("a kernel's name has a zero in it"))?;
        let mut handle: CUfunction = std::ptr::null_mut();
        // SAFETY: the module is loaded; the name ends with a zero; the driver writes one handle.
        let found = unsafe { cuModuleGetFunction(&raw mut handle, self.handle, symbol.as_ptr()) };
        check(found, &format!("finding kernel {name}"))?;
        Ok(Function { module: Arc::clone(self), handle })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: loaded in `load` and unloaded once, here; functions hold the module.
            let _ = unsafe { cuModuleUnload(self.handle) };
        }
    }
}

/// A kernel.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
    pub(super) handle: CUfunction,
}

// SAFETY: a function handle may be used from any thread while its module lives, which it holds.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Lets launches ask for up to `bytes` of dynamic shared memory.
    pub(crate) fn allow_shared(&self, bytes: u64) -> Answer<()> {
        self.module.context.bind()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).map_err(|_| Fault::invalid("shared memory beyond 2 GiB"))?;
        // SAFETY: the function is live.
        check(unsafe { cuFuncSetAttribute(self.handle, attribute, bytes) }, "opting in to shared memory")
    }

    /// Queues one launch whose only parameter is `parameter`.
    ///
    /// # Safety
    /// - `parameter` has the size of the kernel's one parameter, and every address in it is what the kernel expects
    ///   until the launch is done.
    pub(crate) unsafe fn launch<P>(
        &self,
        stream: &Stream,
        grid: [u32; 3],
        threads: u32,
        shared: u32,
        parameter: &P,
    ) -> Answer<()> {
        self.module.context.bind()?;
        let mut parameters = [std::ptr::from_ref(parameter).cast_mut().cast::<c_void>()];
        // SAFETY: the driver copies the parameter during the call; the caller vouches for what it says.
        let launched = unsafe {
            cuLaunchKernel(
                self.handle,
                grid[0],
                grid[1],
                grid[2],
                threads,
                1,
                1,
                shared,
                stream.handle,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(launched, "launching a kernel")
    }
}
