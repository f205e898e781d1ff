//! Where the lines of a text begin, so that a byte's line is found without counting from the start each time.

#[derive(Debug)]
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { starts: [0].into_iter().chain(ends).collect() }
    }

    /// The line of a byte, from 1.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte)
    }
}
