//! What both ends of a channel have in common: how their owner sees them.

/// The verbs of an end, which has a `phase` and an `output`.
macro_rules! both_ends {
    ($end:ident) => {
        impl $end {
            /// Gives a body buffer back for the next message.
            pub fn recycle(&mut self, body: Vec<u8>) {
                if let Phase::Open(open) = &mut self.phase {
                    open.incoming.recycle(body);
                }
            }

            /// Bytes for the other end; take them from the front.
            pub fn outgoing(&mut self) -> &mut Vec<u8> {
                &mut self.output
            }

            /// What was agreed; `None` before the channel is open.
            #[must_use]
            pub fn security(&self) -> Option<&ChannelSecurity> {
                match &self.phase {
                    Phase::Open(open) => Some(&open.security),
                    _ => None,
                }
            }

            /// Whether the channel is over.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                matches!(self.phase, Phase::Closed)
            }

            #[cfg(test)]
            pub(super) fn set_sequence(&mut self, send: u32, receive: u32) {
                if let Phase::Open(open) = &mut self.phase {
                    open.outgoing.set_sequence(send);
                    open.incoming.set_sequence(receive);
                }
            }
        }
    };
}

pub(super) use both_ends;
