//! The CPU backend: the catalog computed by the host's own cores.
