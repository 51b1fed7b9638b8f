//! Reading the keys of one architecture: prefixed, of the right type, within range.

use super::error::{ConfigError, ConfigProblem};
use crate::gguf::{GgufFile, MetaArray, MetaType, MetaValue};

/// The keys of `file` under its architecture's prefix.
pub(super) struct Keys<'a> {
    file: &'a GgufFile,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    /// Finds the architecture; an error unless this is a whole model of one that runs.
    pub(super) fn new(file: &'a GgufFile) -> Result<Self, ConfigError> {
        let metadata = file.metadata();
        let keys = Keys { file, architecture: metadata.require_str("general.architecture")? };
        if let Some(found) = metadata.str("general.type")?.filter(|&found| found != "model") {
            return Err(keys.problem(ConfigProblem::NotAModel { found: found.into() }));
        }
        if !super::ARCHITECTURES.contains(&keys.architecture) {
            return Err(keys.problem(ConfigProblem::Architecture { found: keys.architecture.into() }));
        }
        if let Some(parts) = metadata.u32("split.count")?.filter(|&parts| parts > 1) {
            return Err(keys.problem(ConfigProblem::Split { parts }));
        }
        Ok(keys)
    }

    pub(super) fn architecture(&self) -> &'a str {
        self.architecture
    }

    /// The key as the file has it.
    pub(super) fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(super) fn problem(&self, problem: ConfigProblem) -> ConfigError {
        ConfigError::Model { path: self.file.path().to_path_buf(), problem }
    }

    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// An integer that may be zero or absent.
    pub(super) fn integer(&self, key: &str) -> Result<Option<u32>, ConfigError> {
        let key = self.full(key);
        let metadata = self.file.metadata();
        if metadata.get(&key).is_some_and(|value| value.meta_type() == MetaType::Array) {
            return Err(self.problem(ConfigProblem::PerLayer { key }));
        }
        Ok(metadata.u32(&key)?)
    }

    /// An integer from 1 to `cap` that may be absent.
    pub(super) fn optional(&self, key: &str, cap: u32) -> Result<Option<u32>, ConfigError> {
        match self.integer(key)? {
            Some(found) if found == 0 || found > cap => {
                Err(self.problem(ConfigProblem::Range { key: self.full(key), found, cap }))
            }
            checked => Ok(checked),
        }
    }

    /// An integer from 1 to `cap`.
    pub(super) fn require(&self, key: &str, cap: u32) -> Result<u32, ConfigError> {
        match self.optional(key, cap)? {
            Some(found) => Ok(found),
            // Asked again only for its error, which names the missing key.
            None => Ok(self.file.metadata().require_u32(&self.full(key))?),
        }
    }

    /// A number above 0 and at most `cap`.
    pub(super) fn positive(&self, key: &str, cap: f32) -> Result<f32, ConfigError> {
        let found = self.file.metadata().require_f32(&self.full(key))?;
        self.check_positive(key, found, cap)
    }

    /// A number above 0 and at most `cap` that may be absent.
    pub(super) fn optional_positive(&self, key: &str, cap: f32) -> Result<Option<f32>, ConfigError> {
        let found = self.file.metadata().f32(&self.full(key))?;
        found.map(|found| self.check_positive(key, found, cap)).transpose()
    }

    fn check_positive(&self, key: &str, found: f32, cap: f32) -> Result<f32, ConfigError> {
        // Written so that NaN fails.
        if found > 0.0 && found <= cap {
            return Ok(found);
        }
        Err(self.problem(ConfigProblem::FloatRange { key: self.full(key), found, cap }))
    }

    /// Which layers see only a window: as the file's list says, else all but each `every`-th, the
    /// number itself being the file's or the architecture's. With 1 every layer slides.
    pub(super) fn sliding_layers(&self, n_layer: u32, every: u32) -> Result<Vec<bool>, ConfigError> {
        let key = "attention.sliding_window_pattern";
        if let Some(MetaValue::Array(list)) = self.file.metadata().get(&self.full(key)) {
            let slides = match list {
                MetaArray::Bool(list) => Some(list.clone()),
                MetaArray::U32(list) => Some(list.iter().map(|&layer| layer != 0).collect()),
                MetaArray::I32(list) => Some(list.iter().map(|&layer| layer != 0).collect()),
                _ => None,
            };
            return slides.filter(|slides| slides.len() == n_layer as usize).ok_or_else(|| {
                self.problem(ConfigProblem::SlidingPattern {
                    key: self.full(key),
                    n_layer,
                    found: list.len(),
                })
            });
        }
        let every = self.optional(key, super::cap::LAYERS)?.unwrap_or(every);
        Ok((0..n_layer).map(|layer| every == 1 || layer % every < every - 1).collect())
    }

    /// A string that may be absent.
    pub(super) fn str(&self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        Ok(self.file.metadata().str(&self.full(key))?)
    }
}
