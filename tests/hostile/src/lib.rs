//! Hostile files and misbehaving plugins: the files are made in [`files`], the plugin in `examples/plugin`.

pub mod files;
