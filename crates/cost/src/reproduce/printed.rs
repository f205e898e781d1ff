//! What P4 prints: Tables 2, 3 and 4, and what it says of Figure 7.

/// A model value and a measured one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) model: f64,
    pub(super) measured: f64,
}

/// What is printed of one platform and key size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// 1: Core 2 T7250 at 2 GHz, Vista; 2: Pentium 4 at 3.4 GHz, XP.
    pub(super) platform: u8,
    /// Bits; the headings say bytes, the text (section 5.2) bits.
    pub(super) key: u32,
    /// Table 2, tags a second.
    pub(super) sc1: Pair,
    /// Table 3, tags a second.
    pub(super) sc2: Pair,
    /// Table 4, %.
    pub(super) degradation: Pair,
}

pub(super) const ROWS: [Row; 6] = [
    row(1, 1024, (17.45, 17.3), (3.43, 3.29), (80.34, 80.98)),
    row(1, 2048, (9.32, 9.11), (2.93, 2.85), (68.56, 68.71)),
    row(1, 4096, (1.98, 1.92), (1.35, 1.33), (31.82, 30.73)),
    row(2, 1024, (17.13, 16.61), (4.16, 4.09), (75.71, 75.38)),
    row(2, 2048, (8.45, 8.11), (3.33, 3.2), (60.59, 60.54)),
    row(2, 4096, (1.85, 1.78), (1.38, 1.34), (25.40, 24.72)),
];

/// Figure 7, platform 1 with 1024 bits: configuration, arrivals a second at which the most is reached, that most.
pub(super) const KNEES: [(&str, u32, f64); 2] = [("SC1", 23, 17.45), ("SC2", 7, 3.43)];

const fn row(platform: u8, key: u32, sc1: (f64, f64), sc2: (f64, f64), fall: (f64, f64)) -> Row {
    Row { platform, key, sc1: pair(sc1), sc2: pair(sc2), degradation: pair(fall) }
}

const fn pair(values: (f64, f64)) -> Pair {
    Pair { model: values.0, measured: values.1 }
}
