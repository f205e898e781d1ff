//! A simulated batch plant.
