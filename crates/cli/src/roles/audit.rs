//! Joins the gates' way to the ledger: records in, acknowledgements back; and the order in which both end.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use access_model::meter::{Counter, Histogram, LONG};
use access_model::{AuditRecord, Mono};
use gates::opcua::wiring::{AuditAck, AuditRequest, AuditSink, AuditUnavailable};
use store::{Ack, Ledger};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Records that may wait between a gate and the ledger, and acknowledgements that may be owed to gates.
const WAITING: usize = 8_192;

/// Records that are taken at once.
const TOGETHER: usize = 256;

/// How long what waits may take to reach the ledger when the program ends.
const FAREWELL: Duration = Duration::from_secs(10);

/// The ledger's end of the way; [`Way::end`] is how a program stops without losing what happened last.
pub(crate) struct Way {
    ledger: Ledger,
    meters: Arc<WayMeters>,
    pump: JoinHandle<u64>,
}

/// What is counted on the way.
#[derive(Debug)]
pub(crate) struct WayMeters {
    /// From a record that somebody awaits to the word that it is kept.
    pub(crate) writes: Histogram,
    /// Records that nobody awaited and that are lost.
    pub(crate) lost: Counter,
}

impl Default for WayMeters {
    fn default() -> Self {
        Self { writes: Histogram::new(LONG), lost: Counter::default() }
    }
}

/// A way into `ledger` for one or many gates. It ends when its last sender is dropped.
pub(crate) fn sink(ledger: Ledger) -> (AuditSink, Way) {
    let (sink, requests) = mpsc::channel(WAITING);
    let meters = Arc::<WayMeters>::default();
    let pump = tokio::spawn(pump(requests, ledger.clone(), Arc::clone(&meters)));
    (sink, Way { ledger, meters, pump })
}

impl Way {
    /// What is counted.
    pub(crate) fn meters(&self) -> Arc<WayMeters> {
        Arc::clone(&self.meters)
    }

    /// Waits until the ledger has every record that gates have sent, then closes it. `last` is the caller's own sender;
    /// gates have dropped theirs when they have stopped. The wait is bounded, and what is lost is counted in the log.
    pub(crate) async fn end(self, last: AuditSink) {
        let (waiting, room) = (last.clone().downgrade(), last.max_capacity());
        drop(last);
        match tokio::time::timeout(FAREWELL, self.pump).await {
            Ok(Ok(0)) => {}
            Ok(Ok(lost)) => tracing::error!(lost, "audit records could not be written and are lost"),
            Ok(Err(error)) => tracing::error!(%error, "the way to the audit ledger has broken; records may be lost"),
            Err(_) => {
                let lost = waiting.upgrade().map_or(0, |sink| room - sink.capacity());
                tracing::error!(lost, "a server does not end; audit records that it still has are lost");
            }
        }
        self.ledger.close().await;
        if let Some(store::Unavailable::Write(cause)) = self.ledger.health().trouble {
            tracing::error!(%cause, "the last audit records could not be written and are lost");
        }
    }
}

/// Acknowledgements that the ledger still owes, in the order in which it gives them. No task for each: one look at the front passes on
/// all that a group commit has settled.
#[derive(Default)]
struct Owed(VecDeque<(Ack, AuditAck, Mono)>);

impl Owed {
    /// Passes on what is settled; waits for the oldest when nothing is.
    async fn settle(&mut self, meters: &WayMeters) {
        poll_fn(|context| {
            let before = self.0.len();
            while let Some((ack, ..)) = self.0.front_mut()
                && let Poll::Ready(result) = Pin::new(ack).poll(context)
            {
                let Some((_, asker, since)) = self.0.pop_front() else { break };
                if result.is_ok() {
                    meters.writes.observe(gates::clock::mono().since(since));
                }
                let _asker_is_gone = asker.send(result.map(drop).map_err(|_| AuditUnavailable));
            }
            if self.0.len() < before { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Gives the number of records that nobody awaited and that are lost.
async fn pump(mut requests: mpsc::Receiver<AuditRequest>, ledger: Ledger, meters: Arc<WayMeters>) -> u64 {
    let (mut owed, mut open) = (Owed::default(), true);
    let mut arrived = Vec::with_capacity(TOGETHER);
    while open || !owed.0.is_empty() {
        tokio::select! {
            biased;
            () = owed.settle(&meters), if !owed.0.is_empty() => {}
            count = requests.recv_many(&mut arrived, TOGETHER), if open && owed.0.len() < WAITING => open = count > 0,
        }
        for AuditRequest { record, ack } in arrived.drain(..) {
            // Those that are awaited join one group: nobody waits here.
            match ack {
                Some(ack) => owed.0.push_back((ledger.append(&record), ack, gates::clock::mono())),
                None => _ = meters.lost.add(u64::from(!noted(&ledger, &record))),
            }
        }
    }
    meters.lost.get()
}

fn noted(ledger: &Ledger, record: &AuditRecord) -> bool {
    let noted = ledger.note(record);
    if let Err(error) = &noted {
        tracing::error!(%error, kind = record.kind.name(), "an audit record could not be written");
    }
    noted.is_ok()
}

#[cfg(test)]
mod tests {
    use access_model::{Actor, AuditKind, Epoch, Outcome, UnixTime};
    use store::{CheckpointKey, KeyKind, LedgerConfig};
    use tokio::sync::oneshot;

    use super::*;

    fn record(number: usize) -> AuditRecord {
        AuditRecord {
            at: UnixTime::from_seconds(1_795_262_399),
            kind: AuditKind::Write,
            actor: Actor { name: "olga".into(), ..Actor::default() },
            object: number.to_string(),
            outcome: Outcome::Allowed,
            detail: String::new(),
            count: 1,
            epoch: Some(Epoch(1)),
            place: None,
        }
    }

    fn ledger(folder: &tempfile::TempDir, config: LedgerConfig) -> Ledger {
        Ledger::open(folder.path(), config, CheckpointKey::generate(KeyKind::Ed25519).unwrap()).unwrap()
    }

    fn numbers(folder: &tempfile::TempDir) -> Vec<String> {
        store::tail(folder.path(), usize::MAX).unwrap().into_iter().map(|entry| entry.object).collect()
    }

    /// More than the way and the acknowledgements owed may hold at once.
    const MANY: usize = 3 * WAITING;

    #[tokio::test]
    async fn in_order_and_none_lost_when_the_program_ends_while_all_are_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let (sink, way) = sink(ledger(&folder, LedgerConfig::default()));
        let mut answers = Vec::new();
        for number in 0..MANY {
            let (ack, answer) = oneshot::channel();
            // Two of three are awaited, and some askers do not wait for the answer.
            let ack = (number % 3 != 0).then_some(ack);
            sink.send(AuditRequest { record: record(number), ack }).await.unwrap();
            if number % 3 != 0 && number % 7 != 0 {
                answers.push(answer);
            }
        }
        way.end(sink).await;
        assert_eq!(numbers(&folder), (0..MANY).map(|number| number.to_string()).collect::<Vec<_>>());
        for mut answer in answers {
            assert_eq!(answer.try_recv(), Ok(Ok(())));
        }
    }

    #[tokio::test]
    async fn an_acknowledged_record_is_in_the_ledger_already() {
        let folder = tempfile::tempdir().unwrap();
        let (sink, way) = sink(ledger(&folder, LedgerConfig::default()));
        for number in 0..50 {
            let (ack, answer) = oneshot::channel();
            sink.send(AuditRequest { record: record(number), ack: Some(ack) }).await.unwrap();
            assert_eq!(answer.await, Ok(Ok(())));
            assert_eq!(numbers(&folder).len(), number + 1);
        }
        way.end(sink).await;
    }

    #[tokio::test]
    async fn what_a_closed_or_full_ledger_turns_away_is_answered_so_and_the_rest_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let closed = ledger(&folder, LedgerConfig { queue_records: 100, ..LedgerConfig::default() });
        let (sink, way) = sink(closed.clone());
        let mut answers = Vec::new();
        for number in 0..MANY {
            let (ack, answer) = oneshot::channel();
            sink.send(AuditRequest { record: record(number), ack: Some(ack) }).await.unwrap();
            answers.push(answer);
        }
        let mut kept = Vec::new();
        for (number, answer) in answers.into_iter().enumerate() {
            if answer.await.unwrap().is_ok() {
                kept.push(number.to_string());
            }
        }
        assert_eq!(numbers(&folder), kept);
        closed.close().await;
        let (ack, answer) = oneshot::channel();
        sink.send(AuditRequest { record: record(0), ack: Some(ack) }).await.unwrap();
        assert_eq!(answer.await, Ok(Err(AuditUnavailable)));
        way.end(sink).await;
        assert_eq!(numbers(&folder), kept);
    }
}
