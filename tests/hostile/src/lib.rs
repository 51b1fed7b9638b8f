//! Hostile files and misbehaving plugins: the tests are in `tests/`, the plugin in `examples/plugin`.
