//! The macro that makes a type a plugin, and the root functions behind it.

use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{BACKEND_1, DEVICE_1, Identity, Interface};

use crate::guard;
use crate::instance::Exported;
use crate::{glue_backend, glue_device};

static TABLES: [RStr<'static>; 2] = [RStr::from_str(BACKEND_1), RStr::from_str(DEVICE_1)];

/// `Root::identity` of an exported backend.
pub extern "C" fn identity<B: Exported>() -> Identity {
    Identity {
        id: RStr::from_str(B::ID),
        version: RStr::from_str(B::VERSION),
        description: RStr::from_str(B::DESCRIPTION),
        tables: RSlice::from_slice(&TABLES),
        license: RStr::from_str(B::LICENSE),
    }
}

/// `Root::interface` of an exported backend.
pub extern "C" fn backend_interface<B: Exported>(id: RStr<'_>) -> Interface {
    let instance = B::instance();
    match id.as_str() {
        BACKEND_1 => Interface::of(instance.backend_table.get_or_init(glue_backend::table::<B>)),
        DEVICE_1 => Interface::of(instance.device_table.get_or_init(glue_device::table::<B>)),
        _ => Interface::absent(),
    }
}

/// `Root::shutdown` of an exported backend.
pub extern "C" fn shutdown<B: Exported>() {
    // Nobody is left to hear of a panic at exit.
    let _ = guard::answer(|| {
        B::shutdown();
        Ok(())
    });
}

/// Exports a [`crate::Backend`] as this library's plugin root. Once per library.
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        impl $crate::__export::Exported for $backend {
            fn instance() -> &'static $crate::__export::Instance<Self> {
                static INSTANCE: $crate::__export::Instance<$backend> = $crate::__export::Instance::new();
                &INSTANCE
            }
        }

        const _: () = {
            use abi_stable::prefix_type::{PrefixTypeTrait, WithMetadata};
            use $crate::abi::abi_stable;

            const ROOT: $crate::abi::Root = $crate::abi::Root {
                identity: $crate::__export::identity::<$backend>,
                interface: $crate::__export::backend_interface::<$backend>,
                shutdown: $crate::__export::shutdown::<$backend>,
            };

            static METADATA: WithMetadata<$crate::abi::Root> = WithMetadata::new(ROOT);

            fn root() -> $crate::abi::RootRef {
                $crate::abi::RootRef(METADATA.static_as_prefix())
            }

            extern "C" fn erased() -> abi_stable::library::RootModuleResult {
                abi_stable::library::__call_root_module_loader(root)
            }

            // The name abi_stable looks for; a test of the SDK holds it against
            // the crate's own constant.
            // SAFETY: no other symbol of a plugin has this name, and `erased`
            // returns the root of exactly the type given here.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            #[used]
            static HEADER: abi_stable::library::LibHeader = unsafe {
                abi_stable::library::LibHeader::from_constructor::<$crate::abi::RootRef>(
                    erased,
                    abi_stable::library::CheckTypeLayout::Yes,
                )
            };
        };
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_symbol_is_the_one_abi_stable_looks_for() {
        let expected = cajeta_abi::abi_stable::library::ROOT_MODULE_LOADER_NAME;
        assert!(include_str!("export.rs").contains(&format!("export_name = \"{expected}\"")), "{expected}");
    }
}
