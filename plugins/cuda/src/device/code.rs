//! The device code of one device, loaded: a function a kernel.

use std::collections::HashMap;
use std::sync::Arc;

use cajeta_plugin_api::{Answer, Fault};

use crate::code::{self, CODES, KERNELS};
use crate::driver::{Context, Function, Module};

/// Loaded kernels by name.
pub(super) struct LoadedCode {
    functions: HashMap<&'static str, (Function, bool)>,
}

impl LoadedCode {
    /// Loads all code of a target.
    ///
    /// # Errors
    /// Unsupported when this build has none.
    pub(super) fn load(context: &Arc<Context>, target: &str) -> Answer<LoadedCode> {
        let mut modules: HashMap<usize, Arc<Module>> = HashMap::new();
        let mut functions = HashMap::new();
        for kernel in KERNELS.iter().filter(|kernel| kernel.target == target) {
            let module = match modules.get(&kernel.code) {
                Some(module) => module,
                None => {
                    let code =
                        CODES.get(kernel.code).ok_or_else(|| Fault::internal("a kernel without code"))?;
                    modules.entry(kernel.code).or_insert(Module::load(context, code.bytes, code.file)?)
                }
            };
            let function = module.function(kernel.name)?;
            // Once and for all: the limit is the function's, and a launch of a smaller problem must not lower it.
            function.allow_shared(context.shared_opt_in().saturating_sub(u64::from(kernel.static_shared)))?;
            functions.insert(kernel.name, (function, kernel.waits));
        }
        if functions.is_empty() {
            return Err(Fault::unsupported(format!(
                "no device code for target {target}: this build has {}",
                code::targets()
            )));
        }
        Ok(LoadedCode { functions })
    }

    /// A kernel, and whether it waits itself for the launch in front of it.
    pub(super) fn function(&self, name: &str) -> Answer<&(Function, bool)> {
        self.functions
            .get(name)
            .ok_or_else(|| Fault::internal(format!("kernel {name} is not in the device code")))
    }
}
