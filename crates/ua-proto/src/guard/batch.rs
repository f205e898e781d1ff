//! Items taken from requests and put together into requests. An item with an ExtensionObject goes alone: if the server reads its length
//! differently, what it takes for the next item ends with the message.

use opcua_types::StatusCode;

use crate::server::front::{Malformed, Reader, operations, write_len};

/// Reads the items of a request: at least one, at most `limit` of them (0: any number).
pub(super) fn items<'a, T>(
    reader: &mut Reader<'a>,
    least: usize,
    limit: u32,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, StatusCode> {
    let count = reader.array_len(least)?;
    operations(count, limit)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

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
