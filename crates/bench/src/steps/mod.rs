//! What single steps of single mechanisms cost on this machine, each in a process of its own, with the functions that the product
//! itself uses: the material of predictions. Nothing that is composed of steps is measured here.
//!
//! An [`Entry`] says how one step is done once; [`timed`] repeats it. [`measure`] starts this program again for each step and round,
//! in turns, so that a busy moment of the machine meets all of them, and makes a [`Calibration`](cost::calibration::Calibration).
//! New steps go into [`all`].

mod bed;
mod channel;
mod crypto;
mod decisions;
mod machine;
mod run;
mod socket;
mod symmetric;
mod timing;
mod tls;

use std::time::Duration;

pub use crate::clock::Whose;
pub use bed::Bed;
pub use machine::{machine, versions};
pub use run::{Plan, Program, Told, child, measure, measure_again};
pub use timing::{Computes, Timings, timed, timed_among_others, timed_so_often};

use crate::Failed;

/// One use of a step.
pub type Once = Box<dyn FnMut() -> Result<(), Failed>>;

type Run = Box<dyn Fn(&Bed, Duration) -> Result<Timings, Failed> + Send + Sync>;

/// A step that can be measured.
pub struct Entry {
    /// What is done: `sign`.
    pub operation: &'static str,
    /// By what: `rsa-2048`; may be empty.
    pub algorithm: String,
    /// Bytes that are worked on.
    pub bytes: u64,
    run: Run,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.id())
    }
}

impl Entry {
    /// A step whose work is done by the thread that calls it: `prepare` makes ready what is not measured.
    pub fn new(
        operation: &'static str,
        algorithm: impl Into<String>,
        bytes: u64,
        prepare: impl Fn(&Bed) -> Result<Once, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self::of(operation, algorithm, bytes, Whose::Thread, prepare)
    }

    /// A step that takes microseconds and is done among others.
    pub fn among_others(
        operation: &'static str,
        algorithm: impl Into<String>,
        bytes: u64,
        prepare: impl Fn(&Bed) -> Result<Once, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self::with(operation, algorithm, bytes, move |bed, time| timed_among_others(time, prepare(bed)?))
    }

    /// A step whose work is done by other threads too.
    pub fn of_process(
        operation: &'static str,
        algorithm: impl Into<String>,
        bytes: u64,
        prepare: impl Fn(&Bed) -> Result<Once, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self::of(operation, algorithm, bytes, Whose::Process, prepare)
    }

    fn of(
        operation: &'static str,
        algorithm: impl Into<String>,
        bytes: u64,
        whose: Whose,
        prepare: impl Fn(&Bed) -> Result<Once, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self::with(operation, algorithm, bytes, move |bed, time| timed(time, whose, prepare(bed)?))
    }

    /// A step that times itself.
    pub fn with(
        operation: &'static str,
        algorithm: impl Into<String>,
        bytes: u64,
        run: impl Fn(&Bed, Duration) -> Result<Timings, Failed> + Send + Sync + 'static,
    ) -> Self {
        Self { operation, algorithm: algorithm.into(), bytes, run: Box::new(run) }
    }

    /// `sign rsa-2048`, as [`cost::calibration::Step::name`] of what is measured.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.operation, self.algorithm).trim_end().to_owned()
    }

    /// Its name among all steps: `sign rsa-2048/32`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{} {}/{}", self.operation, self.algorithm, self.bytes)
    }

    /// Measures it in this process for about so long.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn run(&self, bed: &Bed, time: Duration) -> Result<Timings, Failed> {
        (self.run)(bed, time)
    }
}

/// All steps, in the order in which they are told.
#[must_use]
pub fn all() -> Vec<Entry> {
    let lists = [
        crypto::entries(),
        symmetric::entries(),
        decisions::entries(),
        channel::entries(),
        tls::entries(),
        socket::entries(),
    ];
    lists.into_iter().flatten().collect()
}

/// Looks at a value so that the compiler cannot leave its making out.
pub(crate) fn used<T>(value: T) {
    drop(std::hint::black_box(value));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cost::algorithm::Key;
    use cost::choose::Mode;
    use cost::protocol::opcua::{Channel, OpcUa, Policy, User};
    use cost::protocol::tls::{Group, Tls};
    use cost::protocol::tokens::{Asker, Flow, Tokens};
    use cost::protocol::{Party, Phase, lines};

    use super::*;

    /// What our own ends do over OPC UA and TLS, with every policy, mode, key, kind of user and suite.
    fn protocols() -> Vec<Phase> {
        let keys = [Key::Rsa(2_048), Key::Rsa(3_072), Key::Rsa(4_096), Key::Ecdsa(256), Key::Ed25519];
        let (ends, mut phases) = ((Party::Client, Party::Server), Vec::new());
        for key in keys {
            for cipher in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] {
                for group in [Group::X25519, Group::EcdhP256] {
                    let tls = Tls { client: Some(key), cipher, group, resumed: 0.5, ..Tls::new(key) };
                    phases.extend([tls.connect(ends), tls.renew(ends)]);
                }
            }
            for (policy, mode) in Policy::ALL
                .into_iter()
                .flat_map(|policy| [Mode::None, Mode::Sign, Mode::SignAndEncrypt].map(|mode| (policy, mode)))
            {
                let Some(channel) = Channel::new(policy, mode, key) else { continue };
                let tokens =
                    Tokens { encrypted: true, asker: Asker::Explicit(9), ..Tokens::new(Flow::StartFinish(channel)) };
                let users = [User::Anonymous, User::Certificate(key), User::Token(Box::new(tokens))];
                for user in users.into_iter().take(if mode == Mode::None { 1 } else { 3 }) {
                    let opcua = OpcUa { channel, user };
                    phases.extend([opcua.once(), opcua.connect(), opcua.renew(), opcua.refresh()].concat());
                    phases.extend(opcua.request(100, 100, true));
                }
            }
        }
        phases
    }

    /// A price that nobody can measure would be missing from every prediction.
    #[test]
    fn the_cryptography_of_our_protocols_is_measured() {
        let measured: BTreeSet<String> =
            all().iter().map(|entry| format!("{} {}", entry.operation, entry.algorithm)).collect();
        let verbs = ["hash", "sign", "verify", "encrypt", "decrypt", "derive", "generate", "agree"];
        let asked: BTreeSet<String> = lines(&protocols()).into_iter().map(|line| line.operation).collect();
        let asked = asked.iter().filter(|it| it.split_once(' ').is_some_and(|(verb, _)| verbs.contains(&verb)));
        let missing: Vec<&String> = asked.filter(|operation| !measured.contains(*operation)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// A calibration is refused whose step is called like an operation but for a slip.
    #[test]
    fn no_step_is_a_slip_of_an_operation() {
        for entry in all() {
            let slip = cost::operation::slip(&entry.name());
            assert!(slip.is_empty(), "{}: {slip:?}", entry.name());
        }
    }

    #[test]
    fn each_step_has_a_name_of_its_own() {
        let entries = all();
        let names: BTreeSet<String> = entries.iter().map(Entry::id).collect();
        assert_eq!(names.len(), entries.len());
    }

    #[test]
    fn each_step_can_be_done() {
        let bed = Bed::make().unwrap();
        for entry in all() {
            // Some keep the thread that runs them to a processor.
            let run = || entry.run(&bed, Duration::from_millis(1)).map_err(|error| error.to_string());
            let timings = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
            let timings = timings.unwrap_or_else(|error| panic!("{entry:?}: {error}"));
            assert!(!timings.cpu.is_empty() && timings.cpu.len() == timings.wall.len(), "{entry:?}");
            assert!(timings.cpu.iter().chain(&timings.wall).all(|time| time.is_finite() && *time >= 0.0), "{entry:?}");
        }
    }
}
