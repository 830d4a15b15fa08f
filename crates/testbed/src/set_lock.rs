//! One process at a time starts or stops the clusters of a set.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{error::Error, paths, plan::Set};

/// Held as long as the value lives; the kernel lets go of it when the process ends, however it does.
#[derive(Debug)]
pub(crate) struct SetLock {
    file: File,
    path: PathBuf,
}

impl SetLock {
    /// # Errors
    ///
    /// [`Error::Busy`] at once if another process has it.
    pub(crate) fn take(set: Set) -> Result<Self, Error> {
        let state = paths::state();
        fs::create_dir_all(&state).map_err(Error::file("create", &state))?;
        Self::take_file(set, state.join(format!("{set}.lock")))
    }

    fn take_file(set: Set, path: PathBuf) -> Result<Self, Error> {
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(Error::file("open", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { set }),
                Err(TryLockError::Error(source)) => {
                    return Err(Error::file("lock", &path)(source));
                }
            }
            // Whoever had it may have removed the file since we opened it; then it locks nothing.
            if is_at(&file, &path).map_err(Error::file("look at", &path))? {
                return Ok(Self { file, path });
            }
        }
    }

    /// Lets go, and leaves no file.
    pub(crate) fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))?;
        drop(self.file);
        Ok(())
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_and_a_third_gets_it_after_removal() {
        let path = std::env::temp_dir().join(format!("strait-lock-{}", std::process::id()));
        let first = SetLock::take_file(Set::Test, path.clone()).unwrap();
        let second = SetLock::take_file(Set::Test, path.clone());
        assert!(matches!(second, Err(Error::Busy { set: Set::Test })));
        first.remove().unwrap();
        assert!(!path.exists());
        SetLock::take_file(Set::Test, path)
            .unwrap()
            .remove()
            .unwrap();
    }
}
