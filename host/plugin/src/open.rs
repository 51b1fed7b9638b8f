//! Opens a library and holds what it says of itself against this host's types and its manifest.
//!
//! `RTLD_NOW`, so that an undefined symbol is an answer here and not a dead process at its first
//! call; `RTLD_LOCAL`, so that no plugin sees another's symbols. The handle is leaked: tables, rows
//! and strings of the library are `'static`, and libraries that started threads cannot be unmapped.
//! The root module is taken from the header directly, because `abi_stable`'s own loader remembers
//! one root per type: a second plugin would answer as the first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abi_stable::StableAbi;
use abi_stable::library::{
    AbiHeader, AbiHeaderRef, LibHeader, LibraryError, ROOT_MODULE_LOADER_NAME_WITH_NUL,
};
use abi_stable::std_types::RStr;
use cajeta_abi::{BACKEND_1, BackendV1, DEVICE_1, DeviceV1, Interface, Layout, RootRef, Row};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::candidate::{Refusal, Stage};
use crate::contradictions::{self, RefusedRow};
use crate::manifest::PluginManifest;
use crate::{launchable, layout_report, printable, rows};

/// An open, checked library. It stays mapped until the process ends.
pub(crate) struct OpenLibrary {
    pub(crate) path: PathBuf,
    pub(crate) id: Arc<str>,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) license: String,
    pub(crate) root: RootRef,
    pub(crate) backend: &'static BackendV1,
    pub(crate) device: &'static DeviceV1,
    pub(crate) rows: &'static [Row],
    pub(crate) layouts: &'static [Layout],
    pub(crate) refused_rows: Vec<RefusedRow>,
}

/// Opens `path`. `reached` is told each stage before it begins, so that whoever watches this process
/// knows where it died.
pub(crate) fn open(
    path: &Path,
    manifest: Option<&PluginManifest>,
    reached: &mut dyn FnMut(Stage),
) -> Result<OpenLibrary, Refusal> {
    reached(Stage::Open);
    let library = load(path)?;
    reached(Stage::Symbol);
    let header = find_header(library, path)?;
    reached(Stage::Abi);
    let header = upgrade(header)?;
    let root = init_root(header, path)?;
    let identity = identity(root)?;
    if let Some(manifest) = manifest {
        identity.hold_against(manifest)?;
    }
    reached(Stage::Layout);
    let backend = table::<BackendV1>(root, BACKEND_1, path)?;
    let device = table::<DeviceV1>(root, DEVICE_1, path)?;
    let layouts = rows::check_layouts((backend.layouts)(), path)?;
    let rows = rows::check((backend.rows)(), layouts.len(), path)?;
    let refused_rows = contradictions::check(rows, layouts, path)?;
    launchable::check(backend, rows, path)?;
    for RefusedRow { row, name, reason } in &refused_rows {
        tracing::warn!("{}: row {row} `{name}` is refused: {reason}", path.display());
    }
    Ok(OpenLibrary {
        path: path.to_owned(),
        id: identity.id.into(),
        version: identity.version,
        description: identity.description,
        license: identity.license,
        root,
        backend,
        device,
        rows,
        layouts,
        refused_rows,
    })
}

fn load(path: &Path) -> Result<&'static Library, Refusal> {
    // SAFETY: constructors of the library run here. Who may have written it was settled by the trust
    // stage, and the child process has run the same constructors before any other process does.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    match opened {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => {
            let words = printable::line(&cause(&error), 600);
            let remedy = if words.contains("cannot open shared object file") {
                "install the library it needs; a plugin must not link its driver but open it in `probe`"
            } else if words.contains("undefined symbol") {
                "rebuild the plugin; it refers to a symbol that no library it links provides"
            } else {
                "reinstall the plugin; the file is damaged or not a shared library"
            };
            Err(Refusal::new(Stage::Open, format!("the dynamic loader refused it: {words}"), remedy))
        }
    }
}

/// The loader's own words, which the error keeps as its source.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn find_header(library: &'static Library, path: &Path) -> Result<AbiHeaderRef, Refusal> {
    let missing = || {
        Refusal::new(
            Stage::Symbol,
            format!("{} does not export the header of a cajeta plugin", path.display()),
            "build it with `cajeta_plugin_api::export_backend!`, or remove its manifest",
        )
    };
    let name = ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes();
    // SAFETY: the symbol is looked at as an address only.
    let address = unsafe { library.get::<*const AbiHeader>(name) };
    let address: *const AbiHeader = *address.map_err(|_| missing())?;
    if address.is_null() || !address.is_aligned() {
        return Err(missing());
    }
    // SAFETY: the symbol is the header itself, so its address, neither null nor misaligned, is a
    // reference to it. `upgrade` reads the magic text first and refuses anything else.
    let header = unsafe { library.get::<AbiHeaderRef>(name) };
    header.map(|header| *header).map_err(|_| missing())
}

fn upgrade(header: AbiHeaderRef) -> Result<&'static LibHeader, Refusal> {
    header.upgrade().map_err(|error| {
        let reason = match &error {
            LibraryError::InvalidAbiHeader(found) => format!(
                "built with abi_stable's binary interface {}.{}, which this host does not speak",
                found.abi_major, found.abi_minor
            ),
            other => printable::line(&other.to_string(), 400),
        };
        Refusal::new(Stage::Abi, reason, "rebuild the plugin against the current cajeta-plugin-api")
    })
}

fn init_root(header: &'static LibHeader, path: &Path) -> Result<RootRef, Refusal> {
    if header.layout().is_none() {
        return Err(Refusal::new(
            Stage::Layout,
            "the root module carries no layout, so nothing can be checked",
            "rebuild the plugin with `cajeta_plugin_api::export_backend!`",
        ));
    }
    header.init_root_module::<RootRef>().map_err(|error| match error {
        LibraryError::AbiInstability(pages) => {
            layout_report::refusal(path, "the root module", &pages.to_string())
        }
        LibraryError::IncompatibleVersionNumber { expected_version, actual_version, .. } => Refusal::new(
            Stage::Abi,
            format!("root version {actual_version}; this host speaks {expected_version}"),
            "install the plugin's release for this host",
        ),
        other => Refusal::new(
            Stage::Abi,
            printable::line(&other.to_string(), 400),
            "rebuild the plugin against the current cajeta-plugin-api",
        ),
    })
}

/// What a library says of itself, copied out and checked.
struct OwnIdentity {
    id: String,
    version: String,
    description: String,
    license: String,
    tables: Vec<String>,
}

fn identity(root: RootRef) -> Result<OwnIdentity, Refusal> {
    let said = (root.identity())();
    let bad = |what: &str| {
        Refusal::new(
            Stage::Abi,
            format!("the library's identity is broken: {what}"),
            "report this to the plugin's author",
        )
    };
    let text = |raw: RStr<'static>, what: &str| rows::text(raw, 512).ok_or_else(|| bad(what));
    let id = text(said.id, "its id is not text")?.to_owned();
    if !crate::manifest::is_backend_id(&id) {
        return Err(bad("its id is not 1 to 32 lowercase letters, digits and `-`"));
    }
    let tables = rows::slice(said.tables, 64).ok_or_else(|| bad("its list of interfaces is not a list"))?;
    let tables = tables
        .iter()
        .map(|&raw| rows::text(raw, 64).map(str::to_owned).ok_or_else(|| bad("an interface id is not text")))
        .collect::<Result<Vec<String>, Refusal>>()?;
    Ok(OwnIdentity {
        id,
        version: text(said.version, "its version is not text")?.to_owned(),
        description: text(said.description, "its description is not text")?.to_owned(),
        license: text(said.license, "its licence is not text")?.to_owned(),
        tables,
    })
}

impl OwnIdentity {
    fn hold_against(&self, manifest: &PluginManifest) -> Result<(), Refusal> {
        let differs = |what: &str, manifest: &str, library: &str| {
            Err(Refusal::new(
                Stage::Manifest,
                format!("the manifest says {what} `{manifest}`, the library says `{library}`"),
                "reinstall the plugin; its manifest belongs to another build",
            ))
        };
        if self.id != manifest.id {
            return differs("id", &manifest.id, &self.id);
        }
        if self.version != manifest.version {
            return differs("version", &manifest.version, &self.version);
        }
        if self.license != manifest.license {
            return differs("licence", &manifest.license, &self.license);
        }
        let sorted = |tables: &[String]| {
            let mut tables = tables.to_vec();
            tables.sort();
            tables.dedup();
            tables.join(", ")
        };
        let (promised, said) = (sorted(&manifest.tables), sorted(&self.tables));
        if promised != said {
            return differs("tables", &promised, &said);
        }
        Ok(())
    }
}

/// The table behind an interface id, once its layout is this host's.
fn table<T: StableAbi>(root: RootRef, id: &'static str, path: &Path) -> Result<&'static T, Refusal> {
    let interface: Interface = (root.interface())(RStr::from_str(id));
    if interface.table.is_null() {
        return Err(Refusal::new(
            Stage::Abi,
            format!("the library does not answer the interface `{id}`"),
            "install a release of the plugin that speaks this host's interfaces",
        ));
    }
    let Some(found) = interface.layout.into_option() else {
        return Err(Refusal::new(
            Stage::Layout,
            format!("the interface `{id}` comes without the layout of its type"),
            "rebuild the plugin with `cajeta_plugin_api::export_backend!`",
        ));
    };
    abi_stable::abi_stability::abi_checking::check_layout_compatibility(T::LAYOUT, found).map_err(
        |pages| layout_report::refusal(path, &format!("the interface `{id}`"), &pages.to_string()),
    )?;
    let words = interface.table.cast::<usize>();
    // Tables hold function pointers only, each the size of a word.
    let count = size_of::<T>() / size_of::<usize>();
    if !words.is_aligned() {
        return Err(broken_table(id, "is not aligned"));
    }
    for index in 0..count {
        // SAFETY: the layout check says that a `T` is behind the pointer, which is `count` words.
        if unsafe { words.add(index).read() } == 0 {
            return Err(broken_table(id, &format!("has no function at position {index}")));
        }
    }
    // SAFETY: not null, aligned, of the layout of `T`, every function pointer non-null; static
    // because the library is never unmapped.
    Ok(unsafe { &*interface.table.cast::<T>() })
}

fn broken_table(id: &str, what: &str) -> Refusal {
    Refusal::new(Stage::Layout, format!("the table of `{id}` {what}"), "report this to the plugin's author")
}
