//! Items put together into requests. An item with an ExtensionObject goes alone: if the server reads its length
//! differently, what it takes for the next item ends with the message.

use crate::server::front::write_len;

/// One item to be sent.
pub(super) struct Batch {
    /// Its place in the request.
    pub(super) item: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) alone: bool,
}

/// The bodies of the requests, in order, with the items of each.
pub(super) fn batches(items: &[Batch]) -> Vec<(Vec<usize>, Vec<u8>)> {
    let together = items.chunk_by(|one, next| !one.alone && !next.alone);
    let body = |batch: &[Batch]| {
        let mut body = Vec::with_capacity(4 + batch.iter().map(|item| item.bytes.len()).sum::<usize>());
        write_len(&mut body, batch.len());
        batch.iter().for_each(|item| body.extend_from_slice(&item.bytes));
        (batch.iter().map(|item| item.item).collect(), body)
    };
    together.map(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_lie_goes_alone_and_order_stays() {
        let alone = [false, false, true, true, false];
        let item = |(at, alone): (usize, &bool)| Batch { item: at, bytes: vec![9], alone: *alone };
        let items: Vec<Batch> = alone.iter().enumerate().map(item).collect();
        let parts: Vec<Vec<usize>> = batches(&items).into_iter().map(|(items, _)| items).collect();
        assert_eq!(parts, [vec![0, 1], vec![2], vec![3], vec![4]]);
        assert!(batches(&[]).is_empty());
    }
}
