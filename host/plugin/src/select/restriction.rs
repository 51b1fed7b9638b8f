//! What may be chosen: everything of the fixed order, or what somebody named.

use std::ffi::OsStr;
use std::fmt;

use serde::Serialize;

use super::error::SelectError;
use super::{SelectOptions, order};
use crate::manifest::is_backend_id;
use crate::printable;

/// The variable that names the backends allowed.
pub const BACKEND_VARIABLE: &str = "CAJETA_XPU_BACKEND";

/// What may be chosen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "by", content = "backends", rename_all = "snake_case")]
pub enum Restriction {
    /// Every backend of the fixed order.
    None,
    /// The backends `CAJETA_XPU_BACKEND` lists.
    Variable(Vec<String>),
    /// The one backend the program's options force.
    Force(String),
}

impl Restriction {
    /// The restriction the options say. A forced name wins; an empty variable is an unset one. Names
    /// are separated by commas; white space around them and upper case do not matter.
    ///
    /// # Errors
    /// A name that cannot be a backend's, or a list of no names.
    pub(super) fn read(options: &SelectOptions) -> Result<Restriction, SelectError> {
        if let Some(name) = &options.force {
            return Ok(Restriction::Force(name_of("the forced backend", name)?));
        }
        match options.variable.as_deref().map(OsStr::to_string_lossy) {
            Some(value) if !value.trim().is_empty() => {
                let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                let mut names =
                    names.map(|name| name_of(BACKEND_VARIABLE, name)).collect::<Result<Vec<_>, _>>()?;
                names.dedup();
                if names.is_empty() {
                    return Err(SelectError::BadName {
                        place: BACKEND_VARIABLE,
                        value: printable::line(&value, 64),
                    });
                }
                Ok(Restriction::Variable(names))
            }
            _ => Ok(Restriction::None),
        }
    }

    /// Whether a backend may be chosen.
    pub fn allows(&self, id: &str) -> bool {
        match self {
            Restriction::None => order::is_known(id),
            Restriction::Variable(names) => names.iter().any(|name| name == id),
            Restriction::Force(name) => name == id,
        }
    }

    /// Whether somebody named the backend.
    pub fn names(&self, id: &str) -> bool {
        *self != Restriction::None && self.allows(id)
    }

    /// The names that were given.
    pub fn named(&self) -> &[String] {
        match self {
            Restriction::None => &[],
            Restriction::Variable(names) => names,
            Restriction::Force(name) => std::slice::from_ref(name),
        }
    }

    /// Why a backend that is not allowed is not.
    pub(super) fn why_not(&self, id: &str) -> String {
        match self {
            Restriction::None => format!("not in the fixed order; {BACKEND_VARIABLE}={id} takes it"),
            other => format!("left out by {other}"),
        }
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restriction::None => f.write_str("no restriction"),
            Restriction::Variable(names) => write!(f, "{BACKEND_VARIABLE}={}", names.join(",")),
            Restriction::Force(name) => write!(f, "the option that forces `{name}`"),
        }
    }
}

fn name_of(place: &'static str, name: &str) -> Result<String, SelectError> {
    let id = name.trim().to_ascii_lowercase();
    if is_backend_id(&id) {
        return Ok(id);
    }
    Err(SelectError::BadName { place, value: printable::line(name, 64) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::probe::ProbeOptions;
    use crate::search::SearchOptions;

    fn read(force: Option<&str>, variable: Option<&str>) -> Result<Restriction, SelectError> {
        Restriction::read(&SelectOptions {
            search: SearchOptions::default(),
            probe: ProbeOptions::with_program("none"),
            force: force.map(str::to_owned),
            variable: variable.map(Into::into),
            device: None,
        })
    }

    /// The restriction a value of the variable means.
    pub(in crate::select) fn named(variable: &str) -> Restriction {
        read(None, Some(variable)).unwrap()
    }

    #[test]
    fn white_space_case_and_empty_entries_do_not_matter() {
        assert_eq!(named(" CPU , ,Zebra,"), Restriction::Variable(vec!["cpu".into(), "zebra".into()]));
        assert_eq!(named(""), Restriction::None);
        assert_eq!(named("  "), Restriction::None);
        assert_eq!(read(None, None).unwrap(), Restriction::None);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for value in [",", "cpu;zebra", "../cpu", "ünï"] {
            let error = read(None, Some(value)).unwrap_err().to_string();
            assert!(error.contains("CAJETA_XPU_BACKEND"), "{value}: {error}");
        }
    }

    #[test]
    fn a_forced_name_wins_over_the_variable() {
        let restriction = read(Some("Zebra"), Some("cpu")).unwrap();
        assert_eq!(restriction, Restriction::Force("zebra".into()));
        assert!(restriction.names("zebra") && !restriction.allows("cpu"));
    }
}
