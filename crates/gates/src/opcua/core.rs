//! What the shell drives: a server, or a guard, which has a second side.

use access_model::{Mono, Now};
use pep::{Gate, Question};
pub use ua_proto::guard::Output as Outside;
use ua_proto::guard::{Guard, Input as Both, LinkId, Upstream};
use ua_proto::server::{ConnId, Input, Server};

/// What clients meet: a server, or a guard in front of one. Both are fed with keys, updates of rights and lists alike.
pub trait Enforcing: Send + 'static {
    /// Takes an input of the side of the clients.
    fn tell(&mut self, input: Input<'_>, now: Now);

    /// What decides.
    fn gate(&self) -> &Gate;

    /// The side of the clients.
    fn front(&self) -> &Server;

    /// How many subscriptions there are.
    fn subscriptions(&self) -> usize;

    /// The next question for the authority: see [`pep::GateEvent::Question`].
    fn question(&mut self) -> Option<Question>;
}

impl Enforcing for Server {
    fn tell(&mut self, input: Input<'_>, now: Now) {
        self.handle_input(input, now);
    }

    fn gate(&self) -> &Gate {
        Self::gate(self)
    }

    fn front(&self) -> &Server {
        self
    }

    fn subscriptions(&self) -> usize {
        Self::subscriptions(self)
    }

    fn question(&mut self) -> Option<Question> {
        self.poll_question()
    }
}

impl Enforcing for Guard {
    fn tell(&mut self, input: Input<'_>, now: Now) {
        self.handle_input(Both::Down(input), now);
    }

    fn gate(&self) -> &Gate {
        Self::front(self).gate()
    }

    fn front(&self) -> &Server {
        Self::front(self)
    }

    fn subscriptions(&self) -> usize {
        Self::subscriptions(self)
    }

    fn question(&mut self) -> Option<Question> {
        self.poll_question()
    }
}

/// A core that listens for clients: a server, a guard, or what somebody puts there to measure the shell alone.
pub trait Core: Send + 'static {
    /// Takes an input.
    fn handle_input(&mut self, input: Input<'_>, now: Now);

    /// The moment of [`Core::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Now);

    /// From now on it times its checks with this clock.
    fn time_checks(&mut self, stopwatch: fn() -> Mono);

    /// When it wants to be woken.
    fn poll_timeout(&self) -> Option<Mono>;

    /// What is to be done next.
    fn poll_output(&mut self) -> Option<Outside>;

    /// Bytes for a client; who takes some removes them.
    fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>>;

    /// Whether a client should be read.
    fn wants_input(&self, conn: ConnId) -> bool;

    /// Whether it has put input off.
    fn holds_input(&self, conn: ConnId) -> bool;

    /// Whether somebody has a session there.
    fn is_logged_in(&self, conn: ConnId) -> bool;

    /// Something happened on a connection to the upstream server.
    fn upstream(&mut self, _link: LinkId, _event: Upstream<'_>, _now: Now) {}

    /// Bytes for the upstream server.
    fn upstream_outgoing(&mut self, _link: LinkId) -> Option<&mut Vec<u8>> {
        None
    }

    /// Whether requests of a session go over a connection to the upstream server.
    fn serves(&self, _link: LinkId) -> bool {
        false
    }

    /// Whether the upstream server should be read.
    fn wants_upstream(&self, _link: LinkId) -> bool {
        false
    }
}

impl Core for Server {
    fn handle_input(&mut self, input: Input<'_>, now: Now) {
        Self::handle_input(self, input, now);
    }

    fn time_checks(&mut self, stopwatch: fn() -> Mono) {
        Self::time_checks(self, stopwatch);
    }

    fn handle_timeout(&mut self, now: Now) {
        Self::handle_timeout(self, now);
    }

    fn poll_timeout(&self) -> Option<Mono> {
        Self::poll_timeout(self)
    }

    fn poll_output(&mut self) -> Option<Outside> {
        Self::poll_output(self).map(Outside::Down)
    }

    fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        Self::outgoing(self, conn)
    }

    fn wants_input(&self, conn: ConnId) -> bool {
        Self::wants_input(self, conn)
    }

    fn holds_input(&self, conn: ConnId) -> bool {
        Self::holds_input(self, conn)
    }

    fn is_logged_in(&self, conn: ConnId) -> bool {
        Enforcing::front(self).is_logged_in(conn)
    }
}

impl Core for Guard {
    fn handle_input(&mut self, input: Input<'_>, now: Now) {
        Self::handle_input(self, Both::Down(input), now);
    }

    fn time_checks(&mut self, stopwatch: fn() -> Mono) {
        Self::time_checks(self, stopwatch);
    }

    fn handle_timeout(&mut self, now: Now) {
        Self::handle_timeout(self, now);
    }

    fn poll_timeout(&self) -> Option<Mono> {
        Self::poll_timeout(self)
    }

    fn poll_output(&mut self) -> Option<Outside> {
        Self::poll_output(self)
    }

    fn outgoing(&mut self, conn: ConnId) -> Option<&mut Vec<u8>> {
        Self::outgoing(self, conn)
    }

    fn wants_input(&self, conn: ConnId) -> bool {
        Self::wants_input(self, conn)
    }

    fn holds_input(&self, conn: ConnId) -> bool {
        Self::holds_input(self, conn)
    }

    fn is_logged_in(&self, conn: ConnId) -> bool {
        Enforcing::front(self).is_logged_in(conn)
    }

    fn upstream(&mut self, link: LinkId, event: Upstream<'_>, now: Now) {
        Self::handle_input(self, Both::Up { link, event }, now);
    }

    fn upstream_outgoing(&mut self, link: LinkId) -> Option<&mut Vec<u8>> {
        Self::upstream_outgoing(self, link)
    }

    fn wants_upstream(&self, link: LinkId) -> bool {
        Self::wants_upstream(self, link)
    }

    fn serves(&self, link: LinkId) -> bool {
        Self::serves(self, link)
    }
}
