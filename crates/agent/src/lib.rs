//! The agent: dials the hub, and connects to services of its cluster for it.
//
// Being written side by side: the lead writes address.rs, port.rs, lookup.rs, dial.rs and table.rs
// (with their tests); app, identity, connect and serve build on them. Declare your `mod` lines here.

mod address;
mod dial;
mod lookup;
mod port;
mod table;
