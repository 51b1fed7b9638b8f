//! Finds, checks, probes, opens and selects backend plugins, and puts a safe face on their tables.
