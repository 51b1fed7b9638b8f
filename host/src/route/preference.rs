//! What the device and its measurements add to declared order.

use cajeta_abi::Capability;

use super::query::RouteCall;
use crate::record::Answered;

/// What a table asks of the device while it resolves. The audit never does.
pub trait Capabilities {
    /// Whether the device can do something.
    fn supports(&self, capability: Capability) -> bool;

    /// Why a row's kernel cannot be used on this device though its capabilities are there: no code for
    /// it, too much shared memory, a recorded defect.
    fn unusable(&self, row: &str) -> Option<&str> {
        let _ = row;
        None
    }
}

/// How the choice of a row came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// By the declared order alone.
    Declared,
    /// Measured by this process.
    Measured,
    /// Measured by an earlier one, and remembered.
    Stored,
    /// Somebody fixed it.
    Overridden,
}

impl Origin {
    /// The origin of what a question chose that was answered so.
    pub const fn of(answered: Answered) -> Origin {
        match answered {
            Answered::Stored => Origin::Stored,
            Answered::Measured => Origin::Measured,
            Answered::Overridden => Origin::Overridden,
            Answered::Outright | Answered::Held => Origin::Declared,
        }
    }

    /// The word people and JSON read.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Declared => "declared",
            Origin::Measured => "measured",
            Origin::Stored => "stored",
            Origin::Overridden => "overridden",
        }
    }
}

/// A member of a family that is to serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preferred<'a> {
    /// The row's name.
    pub row: &'a str,
    /// How that came about.
    pub origin: Origin,
}

/// Measured answers, asked while a table is resolved. It looks up what is known and measures nothing:
/// timing is done before, over [`super::RouteTable::candidates`].
pub trait Preference<C: RouteCall> {
    /// The member of a family that serves this call. One that is not admitted is passed over; nothing
    /// leaves the declared order.
    fn prefer<'s>(&'s self, family: &str, call: &C) -> Option<Preferred<'s>> {
        let _ = (family, call);
        None
    }

    /// How it was found that a row serves this call rather than others that are no members of its family:
    /// a fusion against its parts. Nothing where declared order alone says so.
    fn confirmed(&self, row: &str, call: &C) -> Option<Origin> {
        let _ = (row, call);
        None
    }

    /// Why a row never serves this call, whatever else there is: it was found to answer wrong. The gate's
    /// name.
    fn refused<'s>(&'s self, row: &str, call: &C) -> Option<&'s str> {
        let _ = (row, call);
        None
    }

    /// Why a row steps back for others whatever its family: the gate's name. That is about order. Where no
    /// other row is admitted it serves all the same.
    fn held_back<'s>(&'s self, row: &str, call: &C) -> Option<&'s str> {
        let _ = (row, call);
        None
    }
}

/// The same where rows that are held back are all there are: none of them is.
pub struct Unheld<'a, P: ?Sized>(pub &'a P);

impl<C: RouteCall, P: Preference<C> + ?Sized> Preference<C> for Unheld<'_, P> {
    fn prefer<'s>(&'s self, family: &str, call: &C) -> Option<Preferred<'s>> {
        self.0.prefer(family, call)
    }

    fn confirmed(&self, row: &str, call: &C) -> Option<Origin> {
        self.0.confirmed(row, call)
    }

    fn refused<'s>(&'s self, row: &str, call: &C) -> Option<&'s str> {
        self.0.refused(row, call)
    }
}

/// The declared order and nothing else.
#[derive(Clone, Copy, Default, Debug)]
pub struct Declared;

impl<C: RouteCall> Preference<C> for Declared {}
