//! Every architecture on the reference backend. One backend serves per process, so each has a file.

#[test]
fn random_models_of_every_architecture() {
    cajeta_golden::architectures::hold("reference");
}
