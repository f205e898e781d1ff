//! The queue in front of the ledger: bounds, refusals and acknowledgements.

use std::sync::Arc;

use super::super::queue::Queue;
use super::*;

fn small() -> LedgerConfig {
    LedgerConfig { queue_records: 3, linger: Duration::ZERO, ..LedgerConfig::default() }
}

#[test]
fn a_full_queue_answers_at_once_and_takes_again_when_it_was_emptied() {
    let queue = Queue::new(&small(), 0);
    for number in 0..2 {
        queue.push(&record(number)).unwrap();
    }
    let mut waiting = queue.push_awaited(&record(2)).unwrap();
    assert_eq!(queue.push(&record(3)), Err(Unavailable::QueueFull));
    assert_eq!(queue.push_awaited(&record(3)).unwrap_err(), Unavailable::QueueFull);
    assert_eq!(queue.trouble(), (None, 2));
    let work = queue.wait(None, Vec::new());
    assert_eq!((work.batch.records, work.batch.waiters.len()), (3, 1));
    assert!(waiting.try_recv().is_err());
    queue.push(&record(3)).unwrap();
}

#[test]
fn the_queue_is_bounded_in_bytes_too() {
    let queue = Queue::new(&LedgerConfig { queue_bytes: 64 * 1024, ..LedgerConfig::default() }, 0);
    let mut long = record(0);
    long.detail = "x".repeat(5_000);
    let taken = (0..1_000).take_while(|_| queue.push(&long).is_ok()).count();
    assert!((30..60).contains(&taken), "{taken}");
}

#[test]
fn while_writing_fails_awaited_records_are_refused_and_others_kept() {
    let queue = Queue::new(&small(), 0);
    let mut waiting = queue.push_awaited(&record(0)).unwrap();
    let cause: Arc<str> = "no space".into();
    let batch = queue.fail(&cause, 0);
    assert_eq!(batch.waiters.len(), 1);
    drop(batch);
    assert!(waiting.try_recv().is_err());
    assert_eq!(queue.push_awaited(&record(1)).unwrap_err(), Unavailable::Write(cause.clone()));
    queue.push(&record(2)).unwrap();
    assert_eq!(queue.trouble(), (Some(cause), 2));
    assert!(!*queue.watch().borrow());
    queue.mend();
    assert!(*queue.watch().borrow());
    queue.push_awaited(&record(3)).unwrap();
}

#[test]
fn a_closed_queue_takes_nothing() {
    let queue = Queue::new(&small(), 0);
    queue.close();
    assert_eq!(queue.push(&record(0)), Err(Unavailable::Closed));
    assert_eq!(queue.push_awaited(&record(0)).unwrap_err(), Unavailable::Closed);
}
