//! What is asked: a query of declared facts, and the call that holds one.
//!
//! The two are told apart by type so that the static half of an admission cannot reach what changes while
//! a program runs: it is given a query, and only a call has a receiver.

use cajeta_abi::{FormatId, Regime};

/// Declared facts of one question. Nothing in it changes while a program runs.
///
/// Regimes and formats are open integers: a registrant numbers its own.
pub trait RouteQuery: Sized {
    /// The regime asked for.
    fn regime(&self) -> Regime;

    /// The format asked for.
    fn format(&self) -> FormatId;

    /// The regime asked of a row that answers the next `ops` ops at once.
    fn regime_of(&self, ops: usize) -> Regime {
        let _ = ops;
        self.regime()
    }

    /// The question in words, for refusals and audits.
    fn describe(&self) -> String {
        format!("{} of {}", Self::format_name(self.format()), Self::regime_name(self.regime()))
    }

    /// A regime in words.
    fn regime_name(regime: Regime) -> String {
        format!("regime {}", regime.0)
    }

    /// A format in words.
    fn format_name(format: FormatId) -> String {
        match format {
            FormatId::NONE => "no format".into(),
            FormatId(number) => format!("format {number}"),
        }
    }
}

/// A question about to be launched: a query, the receiver and the operands.
///
/// It holds its query and is none, so that a registrant extends both.
pub trait RouteCall {
    /// The declared part.
    type Query: RouteQuery;
    /// What a dispatch gives back.
    type Launch;

    /// The declared part.
    fn query(&self) -> &Self::Query;
}
