//! The root module: the three functions every plugin exports, frozen forever.

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{ROption, RSlice, RStr};
use abi_stable::type_layout::TypeLayout;

/// The root of a plugin. Exactly these three fields, in this order, forever.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = RootRef)))]
#[sabi(missing_field(panic))]
pub struct Root {
    /// Who this library says it is. Pure; callable before anything else, from
    /// any thread.
    pub identity: extern "C" fn() -> Identity,
    /// The table behind an interface id, or an interface whose table is null
    /// when this library does not have it. Pure; callable from any thread.
    pub interface: extern "C" fn(id: RStr<'_>) -> Interface,
    /// Called once, before the host exits, after every device is closed. The
    /// library stays mapped. Must not block for longer than a second.
    #[sabi(last_prefix_field)]
    pub shutdown: extern "C" fn(),
}

impl RootModule for RootRef {
    abi_stable::declare_root_module_statics! {RootRef}

    const BASE_NAME: &'static str = "cajeta_backend";
    const NAME: &'static str = "cajeta_backend";
    // A literal: `abi_stable` refuses a root whose minor version differs, so
    // the version of the root must not move with this crate's.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.0.0");
}

// The crate's own version is 1.x forever; this fails to build if it leaves it.
const _: () = {
    let major = env!("CARGO_PKG_VERSION_MAJOR").as_bytes();
    assert!(major.len() == 1 && major[0] == b'1');
};

/// What a library says of itself, held by the host against its manifest.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Identity {
    /// The backend id: lowercase ASCII letters, digits, `-`; at most 32 bytes.
    pub id: RStr<'static>,
    /// Version of the plugin, for people.
    pub version: RStr<'static>,
    /// One line for people.
    pub description: RStr<'static>,
    /// The interface ids this library answers, for instance `backend/1`.
    pub tables: RSlice<'static, RStr<'static>>,
    /// SPDX expression of the library's licence.
    pub license: RStr<'static>,
}

/// An interface table and the layout of its type.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Interface {
    /// Points at an immutable table with static lifetime, or null.
    pub table: *const (),
    /// Layout of the table's type. A table without a layout is refused.
    pub layout: ROption<&'static TypeLayout>,
}

impl Interface {
    /// The answer "this library does not have that interface".
    pub const fn absent() -> Interface {
        Interface { table: std::ptr::null(), layout: ROption::RNone }
    }

    /// An interface over a static table.
    pub const fn of<T: StableAbi>(table: &'static T) -> Interface {
        Interface { table: std::ptr::from_ref(table).cast(), layout: ROption::RSome(T::LAYOUT) }
    }
}
