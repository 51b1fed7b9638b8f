//! Hostile files and misbehaving plugins.
