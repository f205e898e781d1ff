//! Measures what one added variable costs: `cargo run --release -p ua-proto --example space_bytes -- <variables>`
//! prints the peak resident memory of a process that holds that many. The figure of the issue is the peak at
//! 5,000,000 minus the peak at 0, divided by 5,000,000.

use access_model::ScopeIndex;
use opcua_types::{NodeId, Variant};
use ua_proto::space::{NewVariable, Space, SpaceConfig, ns0};

const PER_FOLDER: u32 = 1_000;

fn main() {
    let count: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(5_000_000);
    let config = SpaceConfig { application_uri: "urn:bytes".into(), namespaces: vec!["urn:plant".into()] };
    let mut space = Space::new(config).expect("a small space");
    let mut names = Names(0x9e37_79b9_7f4a_7c15);
    let mut folder = ns0::OBJECTS;
    let mut number = 0;
    for nth in 0..count {
        let mut next = || {
            number += 1;
            Some(NodeId::new(2, number))
        };
        if nth % PER_FOLDER == 0 {
            folder = space.add_folder(ns0::OBJECTS, next(), &names.next(nth), ScopeIndex(1)).expect("a folder");
        }
        let scope = ScopeIndex(1 + nth % 1_000);
        let name = names.next(nth);
        let new = NewVariable::new(folder, next(), &name, Variant::Double(f64::from(nth)), scope);
        space.add_variable(new).expect("a variable");
    }
    println!("{} nodes, peak resident memory {} kB", space.len(), peak_kilobytes());
}

/// Unique names of 12 to 24 characters: eight hold the number, the rest is random.
struct Names(u64);

impl Names {
    fn next(&mut self, number: u32) -> String {
        let mut name = format!("{number:08x}");
        let len = 12 + (self.random() % 13) as usize;
        while name.len() < len {
            name.push(char::from(b'a' + (self.random() % 26) as u8));
        }
        name
    }

    fn random(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel tells the peak in a file")]
fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
