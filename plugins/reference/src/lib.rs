//! The oracles compiled as a plugin: template, null driver and fake device in one.
