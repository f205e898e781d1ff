//! The OPC UA client that keeps its access token fresh.
