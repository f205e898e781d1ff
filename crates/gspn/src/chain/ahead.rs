//! Where cycles lead: a guess from what the last of them changed (reduced rank extrapolation).

/// Cycles from which it is guessed.
pub(super) const WINDOW: usize = 3;
/// What a state counts for at least: less has no square.
const LITTLE: f64 = 1e-150;
/// The logarithm of how far a guess by logarithms may lead.
const FAR: f64 = 2.3;

/// Solutions of the last cycles and what each cycle changed, for a guess at where they lead (reduced rank extrapolation).
#[derive(Debug, Default)]
pub(super) struct Past {
    weights: Vec<Vec<f64>>,
    changes: Vec<Vec<f64>>,
}

impl Past {
    /// Whether no cycle was seen since the last guess.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// A guess once [`WINDOW`] cycles were seen: the sum of solutions, in parts that add up to 1, whose change is the least.
    pub(super) fn ahead(&mut self, before: &[f64], now: &[f64], least: f64) -> Option<Vec<f64>> {
        self.weights.push(now.to_vec());
        self.changes.push(now.iter().zip(before).map(|(now, before)| now - before).collect());
        if self.changes.len() < WINDOW {
            return None;
        }
        let Self { weights, changes } = std::mem::take(self);
        // Relative to the state, because relative changes are what the cycles are to settle.
        let parts = shortest(&changes, |state| now[state].max(least).max(LITTLE).powi(2))?;
        let mut ahead = vec![0.0; now.len()];
        for (part, weights) in parts.iter().zip(&weights) {
            ahead.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += part * weight);
        }
        // A guess that turns a weight round, or nearly, is none.
        let sound = ahead.iter().zip(now).all(|(it, now)| *it + least > 0.1 * now && *it < 10.0 * now + least);
        ahead.iter_mut().for_each(|it| *it = it.max(0.0));
        sound.then_some(ahead)
    }
}

/// What each of the last cycles changed, for a guess at where they lead. Changes are logarithms: what is added to them leaves each weight
/// above 0.
#[derive(Debug, Default)]
pub(super) struct Course(Vec<Vec<f64>>);

impl Course {
    /// Whether no cycle was seen since the last guess.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes `weights` ahead once [`WINDOW`] cycles were seen: to the product of powers of solutions, which add up to 1, whose change
    /// is the least, whatever the weights of the states where they change.
    pub(super) fn ahead(&mut self, before: &[f64], weights: &mut [f64], least: f64) {
        let least = least.max(f64::MIN_POSITIVE);
        let change = |(now, before): (&f64, &f64)| if now.min(*before) > least { (now / before).ln() } else { 0.0 };
        self.0.push(weights.iter().zip(before).map(change).collect());
        if self.0.len() < WINDOW {
            return;
        }
        let changes = std::mem::take(&mut self.0);
        let Some(parts) = shortest(&changes, |_| 1.0) else { return };
        // A solution is the last one less all that came after it.
        let earlier = |cycle: usize| -parts[..cycle].iter().sum::<f64>();
        let shares: Vec<f64> = (0..changes.len()).map(earlier).collect();
        let led = |state: usize| shares.iter().zip(&changes).map(|(share, change)| share * change[state]).sum::<f64>();
        // A guess that leads far is none.
        if (0..weights.len()).all(|state| led(state).abs() < FAR) {
            weights.iter_mut().enumerate().for_each(|(state, weight)| *weight *= led(state).exp());
        }
    }
}

/// The parts, which add up to 1, of vectors whose sum is the shortest, where each entry counts by one over a size.
fn shortest(vectors: &[Vec<f64>], sizes: impl Fn(usize) -> f64) -> Option<Vec<f64>> {
    let count = vectors.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for row in 0..count {
        for column in 0..=row {
            let pairs = vectors[row].iter().zip(&vectors[column]).enumerate();
            let product: f64 = pairs.map(|(at, (one, other))| one * other / sizes(at)).sum();
            matrix[row][column] = product;
            matrix[column][row] = product;
        }
        matrix[row][count] = 1.0;
    }
    // The diagonal is raised a little: changes that look alike must not be played off against each other.
    let largest = (0..count).map(|at| matrix[at][at]).fold(0.0, f64::max);
    (0..count).for_each(|at| matrix[at][at] += matrix[at][at] * 1e-12 + largest * 1e-300);
    for pivot in 0..count {
        let value = matrix[pivot][pivot];
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        let row = matrix[pivot].clone();
        for (_, other) in matrix.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = other[pivot] / value;
            other.iter_mut().zip(&row).for_each(|(entry, own)| *entry -= factor * own);
        }
    }
    let parts: Vec<f64> = (0..count).map(|at| matrix[at][count] / matrix[at][at]).collect();
    let sum: f64 = parts.iter().sum();
    (sum.is_finite() && sum != 0.0).then(|| parts.iter().map(|part| part / sum).collect())
}
