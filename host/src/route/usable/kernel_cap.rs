//! The answer, latched per kernel for the process.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cajeta_abi::{DeviceFacts, Fact, Geometry, Manifest, Problem, Row, Subject};
use cajeta_catalog::op::Op;
use cajeta_catalog::scalars::scalar_bytes;
use cajeta_plugin_host::contradictions::smallest;
use cajeta_plugin_host::{Backend, Device};

use super::defects::Defects;

/// What a backend says of its rows' code.
pub trait Kernels {
    /// The rows.
    fn rows(&self) -> &[Row];

    /// Why the host does not use a row whatever the device, if it does not.
    fn refused(&self, row: usize) -> Option<String>;

    /// The manifest of a row's code for a target; nothing when there is no code. A sentence when the
    /// backend does not answer.
    fn manifest(&self, row: usize, target: &str) -> Result<Option<Manifest>, String>;

    /// The launch shape of a row at a problem, where it has one.
    fn geometry(
        &self,
        row: usize,
        facts: &DeviceFacts,
        problem: &Problem,
        scalars: &[u8],
    ) -> Option<Geometry>;
}

impl Kernels for Backend {
    fn rows(&self) -> &[Row] {
        Backend::rows(self)
    }

    fn refused(&self, row: usize) -> Option<String> {
        let refused = self.refused_rows().iter().find(|refused| refused.row == row)?;
        Some(format!("refused at load: {}", refused.reason))
    }

    fn manifest(&self, row: usize, target: &str) -> Result<Option<Manifest>, String> {
        Backend::manifest(self, row, target).map_err(|error| error.to_string())
    }

    fn geometry(
        &self,
        row: usize,
        facts: &DeviceFacts,
        problem: &Problem,
        scalars: &[u8],
    ) -> Option<Geometry> {
        Backend::geometry(self, row, facts, problem, scalars).ok()
    }
}

/// Which kernels of a backend a device can use. Each is asked about once.
pub struct KernelCap {
    kernels: Box<dyn Kernels + Send + Sync>,
    facts: DeviceFacts,
    defects: Defects,
    by_name: HashMap<String, usize>,
    /// By row: why not, once asked.
    answers: Vec<OnceLock<Option<String>>>,
}

impl KernelCap {
    /// The answers about one device.
    pub fn new(kernels: Box<dyn Kernels + Send + Sync>, facts: DeviceFacts, defects: Defects) -> KernelCap {
        let names = kernels.rows().iter().enumerate();
        let by_name = names.map(|(index, row)| (row.name.to_string(), index)).collect();
        let answers = kernels.rows().iter().map(|_| OnceLock::new()).collect();
        KernelCap { kernels, facts, defects, by_name, answers }
    }

    /// The answers about an open device: the same ones for the whole process. Defects are those recorded
    /// beside its plugin and in the operator's folders; a file of them that does not read is warned of.
    pub fn of(device: &Device) -> Arc<KernelCap> {
        static KNOWN: Mutex<BTreeMap<(PathBuf, u32), Arc<KernelCap>>> = Mutex::new(BTreeMap::new());
        let backend = device.backend();
        let key = (backend.path().to_owned(), device.index());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let made = known.entry(key).or_insert_with(|| {
            let defects = Defects::installed(backend.id(), backend.path().parent());
            let rows: Vec<&str> = backend.rows().iter().map(|row| row.name.as_str()).collect();
            for stranger in defects.strangers(&rows) {
                let (row, file) = (&stranger.row, stranger.file.display());
                let of_another = match stranger.backend {
                    Some(_) => "",
                    None => " here, and if it is for another backend, it should name that",
                };
                tracing::warn!(
                    "{file}: backend `{}` has no row `{row}`; that record does nothing{of_another}",
                    backend.id()
                );
            }
            Arc::new(KernelCap::new(Box::new(backend.clone()), *device.facts(), defects))
        });
        made.clone()
    }

    /// Why a row's kernel cannot be used; nothing when it can, or when there is no such row.
    pub fn unusable(&self, row: &str) -> Option<&str> {
        let index = *self.by_name.get(row)?;
        self.answers.get(index)?.get_or_init(|| self.find_out(index)).as_deref()
    }

    fn find_out(&self, index: usize) -> Option<String> {
        let row = self.kernels.rows().get(index)?;
        if let Some(refused) = self.kernels.refused(index) {
            return Some(refused);
        }
        if let Some(defect) = self.defects.of(row.name.as_str(), &self.facts) {
            return Some(format!("a recorded defect: {defect}"));
        }
        let target = self.facts.target.as_str();
        let manifest = match self.kernels.manifest(index, target) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return Some(format!("no code for {target}")),
            Err(text) => return Some(format!("no manifest for {target}: {text}")),
        };
        let limit = [Fact::SHARED_BLOCK, Fact::SHARED_BLOCK_OPT_IN].map(|fact| self.facts.get(fact));
        let (limit, need) = (limit.into_iter().flatten().max()?, self.shared(index, row, &manifest));
        (need > limit).then(|| format!("{need} shared bytes of a block, at most {limit}"))
    }

    /// Shared bytes of a block at the smallest problem the row takes. Larger ones are the filter's to
    /// weigh.
    fn shared(&self, index: usize, row: &Row, manifest: &Manifest) -> u64 {
        let least = |subject| smallest(row, subject).unwrap_or(0);
        let problem = Problem {
            m: least(Subject::M),
            n: least(Subject::N),
            k: least(Subject::K),
            batch: least(Subject::BATCH),
            aux: least(Subject::AUX),
        };
        let bytes = row.steps.iter().filter_map(|step| Op::from_id(step.op)).map(scalar_bytes).sum();
        let geometry =
            self.kernels.geometry(index, &self.facts, &problem, &vec![0; bytes]).unwrap_or_default();
        let compiled = manifest.present & Manifest::STATIC_SHARED != 0;
        let compiled = if compiled { manifest.static_shared } else { 0 };
        // The compiler and the launch name the same static bytes; whoever names more is believed.
        u64::from(compiled.max(geometry.static_shared)) + u64::from(geometry.dynamic_shared)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
    use cajeta_abi::{Arith, Regime, Text};

    use super::*;

    struct Fake {
        rows: Vec<Row>,
        asked: Arc<AtomicUsize>,
    }

    fn row(name: &'static str) -> Row {
        Row {
            name: RStr::from_str(name),
            family: RStr::from_str(""),
            regime: Regime::DECODE_ROW,
            arith: Arith::F32,
            priority: 0,
            steps: RSlice::EMPTY,
            problem_step: 0,
            args: RSlice::EMPTY,
            needs: RSlice::EMPTY,
            shape_gates: RSlice::EMPTY,
            ready_gates: RSlice::EMPTY,
        }
    }

    impl Kernels for Fake {
        fn rows(&self) -> &[Row] {
            &self.rows
        }
        fn refused(&self, row: usize) -> Option<String> {
            (row == 4).then(|| "refused at load: of tomorrow".into())
        }
        fn manifest(&self, row: usize, target: &str) -> Result<Option<Manifest>, String> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut manifest = Manifest::none();
            manifest.present = Manifest::STATIC_SHARED;
            manifest.static_shared = if row == 1 { 100 << 10 } else { 1 << 10 };
            match row {
                2 if target == "gfx1151" => Ok(None),
                3 => Err("it will not say".into()),
                _ => Ok(Some(manifest)),
            }
        }
        fn geometry(&self, row: usize, _: &DeviceFacts, _: &Problem, _: &[u8]) -> Option<Geometry> {
            (row == 0).then(|| Geometry { dynamic_shared: 90 << 10, ..Geometry::default() })
        }
    }

    fn usable(cap: &KernelCap, row: &str) -> bool {
        cap.unusable(row).is_none()
    }

    fn cap(target: &str, shared: u64, opt_in: Option<u64>) -> (KernelCap, Arc<AtomicUsize>) {
        let mut facts = DeviceFacts { target: Text::new(target), ..DeviceFacts::NONE };
        facts.set(Fact::SHARED_BLOCK, shared);
        opt_in.into_iter().for_each(|bytes| facts.set(Fact::SHARED_BLOCK_OPT_IN, bytes));
        let asked = Arc::new(AtomicUsize::new(0));
        let rows = ["tile", "wide", "plain", "silent", "tomorrow", "defective"].map(row).to_vec();
        let text = "schema = 1\n[[defect]]\nrow = \"defect*\"\nreason = \"it hangs\"\n";
        let defects = Defects::parse(text).expect("reads");
        let kernels = Fake { rows, asked: asked.clone() };
        (KernelCap::new(Box::new(kernels), facts, defects), asked)
    }

    #[test]
    fn what_fits_one_device_does_not_fit_another() {
        let (opts_in, _) = cap("sm_89", 48 << 10, Some(99 << 10));
        assert_eq!(opts_in.unusable("tile"), None);
        assert_eq!(opts_in.unusable("wide"), Some("102400 shared bytes of a block, at most 101376"));
        assert!(usable(&opts_in, "plain") && usable(&opts_in, "no such row"));
        let (smaller, _) = cap("gfx1151", 64 << 10, None);
        assert_eq!(smaller.unusable("tile"), Some("93184 shared bytes of a block, at most 65536"));
        assert_eq!(smaller.unusable("plain"), Some("no code for gfx1151"));
        assert_eq!(smaller.unusable("silent"), Some("no manifest for gfx1151: it will not say"));
        assert_eq!(smaller.unusable("tomorrow"), Some("refused at load: of tomorrow"));
        assert_eq!(smaller.unusable("defective"), Some("a recorded defect: it hangs (defect*)"));
    }

    #[test]
    fn an_answer_is_latched() {
        let (cap, asked) = cap("sm_89", 48 << 10, None);
        for _ in 0..3 {
            assert!(usable(&cap, "plain") && !usable(&cap, "tile"));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
