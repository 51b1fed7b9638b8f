//! Everything a backend author needs.
