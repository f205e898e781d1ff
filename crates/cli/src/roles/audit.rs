//! Joins the gates' way to the ledger: records in, acknowledgements back.

use gates::opcua::wiring::{AuditRequest, AuditSink, AuditUnavailable};
use store::Ledger;
use tokio::sync::mpsc;

/// Records that may wait between a gate and the ledger.
const WAITING: usize = 8_192;

/// A way into `ledger` for one or many gates. It ends when its last sender is dropped.
pub(crate) fn sink(ledger: Ledger) -> AuditSink {
    let (sink, requests) = mpsc::channel(WAITING);
    tokio::spawn(pump(requests, ledger));
    sink
}

async fn pump(mut requests: mpsc::Receiver<AuditRequest>, ledger: Ledger) {
    while let Some(AuditRequest { record, ack }) = requests.recv().await {
        let Some(ack) = ack else {
            if let Err(error) = ledger.note(&record) {
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
}
