//! `revocation.lag`: from the authority's acknowledgement of a revocation to the last byte of a value at the client.
//!
//! Four processes: authority, resource server, and this program as client and as administrator. The client reads one value
//! after the other and monitors 100 variables that change every 10 ms, on one session; the administrator revokes its token
//! at some moment. The client goes on for a while after the acknowledgement, so that a late value is seen. Then it
//! activates the session with a new token, and so on.

use std::collections::BTreeSet;
use std::time::Duration;

use gates::https::{HttpsClient, Target};
use opcua_types::{
    CreateMonitoredItemsRequest, CreateMonitoredItemsResponse, CreateSubscriptionRequest, CreateSubscriptionResponse,
    DataChangeNotification, DataValue, PublishRequest, SubscriptionAcknowledgement, TimestampsToReturn,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use ua_proto::client::{CallId, ClientEvent, Credential, Response};
use zeroize::Zeroizing;

use super::{Bench, runtime};
use crate::Failed;
use crate::clock::Stopwatch;
use crate::fixture::{self, CLIENT_URI, Fixture, SERVER_URI};
use crate::load::{Link, Security, Way, value_of};
use crate::random::Random;
use crate::record::Record;
use crate::subject::Subject;
use crate::watch::item;

const NODES: u32 = 100_000;
/// Revocations.
const COUNT: usize = 1_000;
/// Variables that change, and how often.
const CHANGING: u32 = 100;
const PERIOD: Duration = Duration::from_millis(10);
/// How long values are watched for after the acknowledgement.
const AFTER: Duration = Duration::from_millis(40);
/// Publish requests that wait at the server.
const PUBLISHES: usize = 4;
/// Cycle of the subscription, in milliseconds.
const CYCLE: f64 = 10.0;
/// Milliseconds.
const GOAL: f64 = 5.0;

/// Takes the measure.
///
/// # Errors
/// A process does not come up, a token is refused, or no values flow.
pub fn run(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let authority = Subject::authority(&fixture)?;
    let ours = Subject::ours_changing(&fixture, NODES, (CHANGING, PERIOD), Some(&authority))?;
    take(bench, &fixture, (&authority, &ours), ("revocation.lag", "revocation.lag"))
}

/// The same through a guard in front of a server that knows nothing of the authority.
///
/// # Errors
/// As [`run`].
pub fn guarded(bench: &mut Bench) -> Result<(), Failed> {
    let fixture = Fixture::make()?;
    let authority = Subject::authority(&fixture)?;
    let server = Subject::ours_changing(&fixture, NODES, (CHANGING, PERIOD), None)?;
    let guard = Subject::guard(&fixture, NODES, (&server, Security::Encrypt), Some(&authority))?;
    take(bench, &fixture, (&authority, &guard), ("guard.revocation.lag", "guard.lag"))
}

fn take(
    bench: &mut Bench,
    fixture: &Fixture,
    (authority, ours): (&Subject, &Subject),
    (measure, group): (&str, &str),
) -> Result<(), Failed> {
    let clock = Stopwatch::start();
    let admin = Admin::start(fixture, authority.url(), clock)?;
    let count = if bench.quick { COUNT / 10 } else { COUNT };
    let mut lags = runtime()?.block_on(revocations(fixture, ours, &admin, clock, count))?;
    lags.sort_by(f64::total_cmp);
    let at = |part: f64| lags.get(((lags.len() - 1) as f64 * part).ceil() as usize).copied().unwrap_or(f64::NAN);
    // Below zero the last value came before the acknowledgement: there is no lag.
    let p99 = at(0.99).max(0.0);
    eprintln!("  {} revocations: median {:.3} ms, p99 {p99:.3} ms, maximum {:.3} ms", lags.len(), at(0.5), at(1.0));
    let record = Record {
        runs: lags.len(),
        min: at(0.0).max(0.0),
        max: at(1.0).max(0.0),
        ..Record::figure(measure, "ms, 99 of 100", p99, GOAL, &bench.command(group))
    };
    let runs: Vec<_> = lags.iter().map(|lag| (*lag, None)).collect();
    bench.keep(Some(record), &runs)
}

async fn revocations(
    fixture: &Fixture,
    ours: &Subject,
    admin: &Admin,
    clock: Stopwatch,
    count: usize,
) -> Result<Vec<f64>, Failed> {
    let (mut id, token) = admin.issue().await?;
    let mut watcher = Watcher::open(fixture, ours, token, clock).await?;
    let mut random = Random::new(1);
    let mut lags = Vec::with_capacity(count);
    for done in 0..count {
        // Some moment of the cycle in which values flow.
        let moment = Duration::from_micros(u64::from(20_000 + random.below(20_000)));
        watcher.watch_for(moment).await?;
        watcher.values_flow().await?;
        let mut acknowledged = admin.revoke(id)?;
        let told = loop {
            tokio::select! {
                told = &mut acknowledged => break told??,
                event = watcher.link.next() => watcher.take(event?)?,
            }
        };
        watcher.watch_for(AFTER).await?;
        lags.push((watcher.last_value - told) * 1e3);
        let (next, token) = admin.issue().await?;
        id = next;
        watcher.renew(token).await?;
        if (done + 1) % 250 == 0 {
            eprintln!("  {} of {count}", done + 1);
        }
    }
    Ok(lags)
}

/// The client: one session that reads and monitors.
struct Watcher {
    link: Link,
    clock: Stopwatch,
    random: Random,
    read: Option<CallId>,
    publishes: BTreeSet<CallId>,
    received: Vec<SubscriptionAcknowledgement>,
    /// The right stands, as far as the client knows: Publish is worth asking for.
    live: bool,
    last_value: f64,
    values_read: u64,
    values_notified: u64,
}

impl Watcher {
    async fn open(fixture: &Fixture, ours: &Subject, token: Credential, clock: Stopwatch) -> Result<Self, Failed> {
        let way = Way::find(fixture, ours.url(), Security::Encrypt, token).await?;
        // A gate that was not in step with its authority yet lets nobody in.
        let mut link = Link::open(&way).await;
        for _ in 0..50 {
            if link.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            link = Link::open(&way).await;
        }
        let mut link = link?;
        subscribe(&mut link).await?;
        let mut watcher = Self {
            link,
            clock,
            random: Random::new(2),
            read: None,
            publishes: BTreeSet::new(),
            received: Vec::new(),
            live: true,
            last_value: 0.0,
            values_read: 0,
            values_notified: 0,
        };
        watcher.ask()?;
        Ok(watcher)
    }

    /// Keeps one Read and some Publish requests under way.
    fn ask(&mut self) -> Result<(), Failed> {
        if self.read.is_none() {
            let number = fixture::number(self.random.below(NODES));
            self.read = Some(self.link.send(value_of(number))?);
        }
        while self.live && self.publishes.len() < PUBLISHES {
            let acknowledgements = std::mem::take(&mut self.received);
            let request = PublishRequest {
                request_header: Default::default(),
                subscription_acknowledgements: (!acknowledgements.is_empty()).then_some(acknowledgements),
            };
            self.publishes.insert(self.link.send(request)?);
        }
        Ok(())
    }

    async fn watch_for(&mut self, time: Duration) -> Result<(), Failed> {
        let end = Instant::now() + time;
        while let Ok(event) = tokio::time::timeout_at(end, self.link.next()).await {
            self.take(event?)?;
        }
        Ok(())
    }

    /// Notes values and asks again.
    fn take(&mut self, event: ClientEvent) -> Result<(), Failed> {
        match event {
            ClientEvent::Answer(id, answer) => {
                let values = answer.as_ref().map_or(0, values);
                if values > 0 {
                    self.last_value = self.clock.seconds();
                }
                if self.read == Some(id) {
                    self.read = None;
                    self.values_read += values;
                } else if self.publishes.remove(&id) {
                    self.values_notified += values;
                    match answer {
                        Ok(Response::Publish(published)) => self.received.push(SubscriptionAcknowledgement {
                            subscription_id: published.subscription_id,
                            sequence_number: published.notification_message.sequence_number,
                        }),
                        _ => self.live = false,
                    }
                }
                self.ask()
            }
            ClientEvent::Activated(_) => {
                self.live = true;
                self.ask()
            }
            ClientEvent::Refused(status) => Err(format!("the new token was refused: {status}").into()),
            ClientEvent::Disconnected(status) => Err(format!("disconnected: {status}").into()),
            _ => Ok(()),
        }
    }

    /// Both ways must be open before the revocation, or the lag would mean nothing. On a busy machine that takes a while.
    async fn values_flow(&mut self) -> Result<(), Failed> {
        let stopwatch = Stopwatch::start();
        while self.values_read == 0 || self.values_notified == 0 {
            if stopwatch.seconds() > 2.0 {
                let (read, notified) = (self.values_read, self.values_notified);
                return Err(format!("{read} values were read and {notified} notified before a revocation").into());
            }
            self.watch_for(AFTER).await?;
        }
        (self.values_read, self.values_notified) = (0, 0);
        Ok(())
    }

    async fn renew(&mut self, token: Credential) -> Result<(), Failed> {
        self.live = false;
        self.link.reactivate(token);
        let renewed = async {
            while !self.live {
                let event = self.link.next().await?;
                self.take(event)?;
            }
            Ok(())
        };
        timeout(Duration::from_secs(5), renewed).await.map_err(|_| "the session was not activated again")?
    }
}

async fn subscribe(link: &mut Link) -> Result<(), Failed> {
    let request = CreateSubscriptionRequest {
        request_header: Default::default(),
        requested_publishing_interval: CYCLE,
        requested_lifetime_count: 10_000,
        requested_max_keep_alive_count: 100,
        max_notifications_per_publish: 0,
        publishing_enabled: true,
        priority: 0,
    };
    let subscription: CreateSubscriptionResponse = link.call(request).await?;
    let request = CreateMonitoredItemsRequest {
        request_header: Default::default(),
        subscription_id: subscription.subscription_id,
        timestamps_to_return: TimestampsToReturn::Both,
        items_to_create: Some((0..CHANGING).map(|nth| item(nth, 10)).collect()),
    };
    let created: CreateMonitoredItemsResponse = link.call(request).await?;
    match created.results.unwrap_or_default().iter().find(|item| item.status_code.is_bad()) {
        Some(bad) => Err(format!("an item could not be monitored: {}", bad.status_code).into()),
        None => Ok(()),
    }
}

/// Values in an answer.
fn values(response: &Response) -> u64 {
    let carries = |value: &DataValue| value.value.is_some();
    let count = match response {
        Response::Read(read) => read.results.iter().flatten().filter(|value| carries(value)).count(),
        Response::Publish(published) => {
            let parts = published.notification_message.notification_data.iter().flatten();
            let changes = parts.filter_map(|part| part.inner_as::<DataChangeNotification>());
            changes
                .flat_map(|change| change.monitored_items.iter().flatten())
                .filter(|item| carries(&item.value))
                .count()
        }
        _ => 0,
    };
    count as u64
}

/// The administrator, on a thread of its own so that its clock does not wait for the client.
struct Admin {
    orders: mpsc::UnboundedSender<Order>,
}

enum Order {
    Issue(oneshot::Sender<Result<(String, Credential), Failed>>),
    Revoke(String, oneshot::Sender<Result<f64, Failed>>),
}

impl Admin {
    fn start(fixture: &Fixture, url: &str, clock: Stopwatch) -> Result<Self, Failed> {
        let https = fixture::https(fixture.folder(), "admin")?;
        let target = Target::parse(url)?;
        let (orders, mut given) = mpsc::unbounded_channel();
        let runtime = runtime()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                while let Some(order) = given.recv().await {
                    match order {
                        Order::Issue(answer) => drop(answer.send(issue(&https, &target).await)),
                        Order::Revoke(id, answer) => {
                            let told = revoke(&https, &target, &id).await.map(|()| clock.seconds());
                            drop(answer.send(told));
                        }
                    }
                }
            });
        });
        Ok(Self { orders })
    }

    async fn issue(&self) -> Result<(String, Credential), Failed> {
        let (answer, issued) = oneshot::channel();
        self.orders.send(Order::Issue(answer)).map_err(|_| "the administrator is gone")?;
        issued.await?
    }

    /// Gives the time of the acknowledgement.
    fn revoke(&self, id: String) -> Result<oneshot::Receiver<Result<f64, Failed>>, Failed> {
        let (answer, revoked) = oneshot::channel();
        self.orders.send(Order::Revoke(id, answer)).map_err(|_| "the administrator is gone")?;
        Ok(revoked)
    }
}

async fn issue(https: &HttpsClient, target: &Target) -> Result<(String, Credential), Failed> {
    let body = serde_json::json!({ "application": CLIENT_URI, "audience": SERVER_URI }).to_string();
    let headers = [("content-type", "application/json")];
    let (status, body) = https.exchange(target, "POST", "/admin/v1/tokens", &headers, body.into_bytes()).await?;
    let answer: serde_json::Value = serde_json::from_slice(&body)?;
    match (answer["id"].as_str(), answer["access_token"].as_str()) {
        (Some(id), Some(token)) => Ok((id.to_owned(), Credential::Issued(Zeroizing::new(token.as_bytes().to_vec())))),
        _ => Err(format!("no token: {status} {answer}").into()),
    }
}

async fn revoke(https: &HttpsClient, target: &Target, id: &str) -> Result<(), Failed> {
    let (status, body) = https.exchange(target, "DELETE", &format!("/admin/v1/tokens/{id}"), &[], Vec::new()).await?;
    if status.is_success() {
        return Ok(());
    }
    Err(format!("not revoked: {status} {}", String::from_utf8_lossy(&body)).into())
}
