//! Which behaviour this copy of the library has: asked of the dynamic loader, which knows the file.

use std::ffi::CStr;
use std::path::Path;
use std::sync::OnceLock;

/// Behaviour and id, from `lib<behaviour>__<id>.so`.
fn names() -> &'static (String, String) {
    static NAMES: OnceLock<(String, String)> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        let address = names as fn() -> &'static (String, String);
        // SAFETY: `info` is writable, and zeroes are valid for it; the loader fills it in.
        let info = unsafe {
            libc::dladdr(address as *const libc::c_void, info.as_mut_ptr());
            info.assume_init()
        };
        // SAFETY: a name the loader gives is a C string that lives as long as the library.
        let file = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
        let stem = Path::new(&file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        let (behaviour, id) = stem.split_once("__").unwrap_or((&stem, "nameless"));
        (behaviour.trim_start_matches("lib").to_owned(), id.to_owned())
    })
}

/// The id in the file name.
pub(crate) fn file_id() -> &'static str {
    &names().1
}

/// Whether this copy has the behaviour.
pub(crate) fn is(behaviour: &str) -> bool {
    names().0 == behaviour
}

extern "C" fn constructor() {
    if is("aborts-in-a-constructor") {
        std::process::abort();
    }
    if is("exits-in-a-constructor") {
        std::process::exit(3);
    }
    if is("hangs-in-a-constructor") {
        hang();
    }
}

extern "C" fn destructor() {
    if is("aborts-at-exit") {
        std::process::abort();
    }
}

/// Never returns, and uses no processor time.
pub(crate) fn hang() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

// SAFETY: the section is a table of functions the loader calls without arguments.
#[unsafe(link_section = ".init_array")]
#[used]
static CONSTRUCTOR: extern "C" fn() = constructor;

// SAFETY: as above, called at exit.
#[unsafe(link_section = ".fini_array")]
#[used]
static DESTRUCTOR: extern "C" fn() = destructor;
