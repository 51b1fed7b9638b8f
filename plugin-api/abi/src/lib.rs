//! The binary interface between the cajeta host and its backend plugins.
