//! A guard between clients and a server of our own, in memory and under virtual time.

mod building;
mod changes;
mod events;
mod history;
mod interlocks;
mod late;
mod layout;
mod monitoring;
mod observing;
mod own;
mod past_events;
mod places;
mod pool;
mod put_events;
mod reference;
mod restore;
mod restricted;
mod services;
mod subscriptions;
mod upstream;
mod world;
