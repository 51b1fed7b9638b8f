//! Every row of every tier this machine has, held against the catalog's oracles
//! through the device's own lists.

mod launch;
mod products;
mod deq;
mod attention;
mod small;

use launch::Launch;
