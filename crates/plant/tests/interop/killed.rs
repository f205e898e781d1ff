//! Everybody's client, through a guard, at everybody's server: the server is killed and started anew, and then the guard,
//! while all of them are connected.

use std::collections::HashMap;
use std::time::Instant;

use gates::opcua::guard::GuardHandle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};

use crate::guarded::again;
use crate::matrix::{CLIENTS, Guarded, at_each_server, run, sign_in};
use crate::peers::{Stack, Step};

const STEPS: [&str; 4] = ["connect", "watch", "resume", "recover"];

/// Programs of all servers' clients that start and connect at once: twenty of them take longer than some of them wait.
static STARTING: Semaphore = Semaphore::const_new(2);

/// How often each step was taken; who waits for one step hears of others meanwhile.
struct Taken {
    heard: mpsc::UnboundedReceiver<String>,
    counts: HashMap<String, usize>,
}

impl Taken {
    /// Waits until so many have taken this step, or have ended.
    async fn wait(&mut self, step: &str, many: usize) {
        while self.counts.get(step).is_none_or(|count| *count < many) {
            let Some(told) = self.heard.recv().await else { return };
            *self.counts.entry(told).or_default() += 1;
        }
    }
}

/// All clients at once: their changes go on after the server was killed and started anew, and again after the guard was.
/// Gives back what is told by those for whom they did not.
async fn killed(mut guarded: Guarded, (guarding, url): (GuardHandle, String)) -> Vec<String> {
    let (told, heard) = mpsc::unbounded_channel();
    let mut taken = Taken { heard, counts: HashMap::new() };
    let there: Vec<Stack> = CLIENTS.into_iter().filter(|client| client.program("client").is_some()).collect();
    let (mut running, began) = (JoinSet::new(), Instant::now());
    for client in there.iter().copied() {
        let (url, told, rule) = (url.clone(), told.clone(), format!("{} at {}", client.name(), guarded.name()));
        running.spawn(async move {
            let (name, tell) = (rule.clone(), told.clone());
            // Held until the first step is taken, or the program has ended.
            let mut starting = Some(STARTING.acquire().await.expect("nobody closes it"));
            let each = move |step: &Step| {
                drop(starting.take());
                println!("{:5.1} s {name}: {step:?}", began.elapsed().as_secs_f32());
                let _nobody_listens = tell.send(step.step.clone());
            };
            let report = run(client, &url, sign_in(client, true), &STEPS, each).await.unwrap_or_default();
            // Nobody waits for a client that has ended.
            for step in STEPS.iter().filter(|step| report.iter().all(|one| one.step != **step)) {
                let _nobody_listens = told.send((*step).to_owned());
            }
            let all = report.iter().map(|step| (step.step.as_str(), step.ok)).eq(STEPS.map(|step| (step, true)));
            (!all).then(|| format!("{rule}: {report:#?}"))
        });
    }
    drop(told);
    taken.wait("watch", there.len()).await;
    guarded = spawn_blocking(move || {
        guarded.server.start_again();
        guarded
    })
    .await
    .expect("the server starts");
    taken.wait("resume", there.len()).await;
    let address = url.trim_start_matches("opc.tcp://").parse().expect("the guard is at an address");
    guarding.stop().await;
    let (last, _) = guarded.start(again(address).await);
    let failed = running.join_all().await.into_iter().flatten().collect();
    last.stop().await;
    failed
}

#[test]
fn their_changes_go_on_after_the_server_and_the_guard_were_killed() {
    let failed = at_each_server(killed);
    assert!(failed.is_empty(), "not all changes go on:\n{}", failed.join("\n"));
}
