//! Virtual clock, reference model, generators and attackers.
