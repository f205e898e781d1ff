//! Joins the gates' way to the ledger: records in, acknowledgements back; and the order in which both end.

use std::time::Duration;

use gates::opcua::wiring::{AuditRequest, AuditSink, AuditUnavailable};
use store::Ledger;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Records that may wait between a gate and the ledger.
const WAITING: usize = 8_192;

/// How long what waits may take to reach the ledger when the program ends.
const FAREWELL: Duration = Duration::from_secs(10);

/// The ledger's end of the way; [`Way::end`] is how a program stops without losing what happened last.
pub(crate) struct Way {
    ledger: Ledger,
    pump: JoinHandle<u64>,
}

/// A way into `ledger` for one or many gates. It ends when its last sender is dropped.
pub(crate) fn sink(ledger: Ledger) -> (AuditSink, Way) {
    let (sink, requests) = mpsc::channel(WAITING);
    let pump = tokio::spawn(pump(requests, ledger.clone()));
    (sink, Way { ledger, pump })
}

impl Way {
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

/// Gives the number of records that nobody awaited and that are lost.
async fn pump(mut requests: mpsc::Receiver<AuditRequest>, ledger: Ledger) -> u64 {
    let mut lost = 0;
    while let Some(AuditRequest { record, ack }) = requests.recv().await {
        let Some(ack) = ack else {
            if let Err(error) = ledger.note(&record) {
                lost += 1;
                tracing::error!(%error, kind = record.kind.name(), "an audit record could not be written");
            }
            continue;
        };
        // The next record joins the same group: nobody waits here.
        let kept = ledger.append(&record);
        tokio::spawn(async move {
            let result = kept.await.map(drop).map_err(|_| AuditUnavailable);
            let _asker_is_gone = ack.send(result);
        });
    }
    lost
}
