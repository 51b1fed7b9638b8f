//! Whose answers are believed.
//!
//! An answer decides which kernel serves, so only those who could decide it anyway may have written it:
//! root, the user this process runs as, and whoever owns the program. The store's folder, the device's
//! folder and each file are held to the owner and mode rules of plugins (`cajeta_plugin_host::trust`):
//! of another owner, writable by everybody, or by a group that is not the owner's own, they are not
//! believed. The sticky bit excuses the store's own folder (`/tmp`): in it only owners replace entries.
//! Folders above are not asked about, because whoever may write there can take the store away and put no
//! other in its place that passes.
//!
//! A cache that several users of a machine share is therefore root's and written by root: the others read
//! it, and keep nothing of their own. One that all may write, as a container's volume often is, is no
//! store; a folder in it that the program makes for itself is.

use std::fs;
use std::path::Path;

use cajeta_plugin_host::trust;

/// Checks a store's folder. What is no folder is nobody's store yet.
///
/// # Errors
/// Why it is not believed, and what to do about it.
pub(super) fn check_directory(directory: &Path) -> Result<(), String> {
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => check(directory, &metadata, true),
        _ => Ok(()),
    }
}

/// Checks a device's folder in a store. What is neither a folder nor a link is nobody's yet.
///
/// # Errors
/// As [`check_directory`]; and a link, which could lead anywhere.
pub(super) fn check_folder(folder: &Path) -> Result<(), String> {
    match fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => check(folder, &metadata, false),
        Ok(metadata) if metadata.is_symlink() => {
            Err(format!("{} is a link, which is not followed; remove it", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Checks a file by what was opened.
///
/// # Errors
/// As [`check_directory`].
pub(super) fn check_file(path: &Path, opened: &fs::File) -> Result<(), String> {
    let metadata = opened.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
    check(path, &metadata, false)
}

fn check(path: &Path, metadata: &fs::Metadata, sticky_counts: bool) -> Result<(), String> {
    trust::check_owner(path, metadata, sticky_counts)
        .map_err(|refusal| format!("{}; {}", refusal.reason, refusal.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_may_write_is_not_believed_and_the_remedy_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        for (bits, as_directory, as_folder) in
            [(0o700, true, true), (0o755, true, true), (0o1777, true, false), (0o777, false, false)]
        {
            mode(bits);
            assert_eq!(
                (check_directory(path).is_ok(), check_folder(path).is_ok()),
                (as_directory, as_folder)
            );
        }
        let why = check_folder(path).expect_err("everybody's");
        assert!(why.contains("writable by everybody") && why.contains("chmod o-w"), "{why}");
        mode(0o700);
        let none = path.join("none");
        assert!(check_directory(&none).is_ok() && check_folder(&none).is_ok());
        let link = path.join("link");
        std::os::unix::fs::symlink(path, &link).expect("linked");
        assert!(check_directory(&link).is_ok() && check_folder(&link).is_err());
    }
}
