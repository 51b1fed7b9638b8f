//! Golden tests against exact logits of real models.
