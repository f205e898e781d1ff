//! What arrives at the clients, held against what ought to be.

use super::*;

impl Life {
    /// Reads what arrived at the clients, and holds it against the model.
    pub(super) fn settle(&mut self) {
        let now = self.world.now();
        for grant in self.clients.iter_mut().filter_map(|client| client.grant.as_mut()) {
            grant.see(now);
        }
        let before = self.allowed();
        for client in 0..self.clients.len() {
            self.note_calls(client);
            self.clients[client].turned_away = false;
            loop {
                while let Some(event) = self.next_event(client) {
                    self.judge(client, event);
                    self.note_calls(client);
                }
                self.keep_publishing(client);
                if !self.has_events(client) {
                    break;
                }
            }
        }
        self.judge_wire(&before);
        for client in 0..self.clients.len() {
            // Where rights have returned, another loss is another denial, even if no value came through in between.
            let silent = std::mem::take(&mut self.clients[client].silent);
            let still = silent.into_iter().filter(|handle| !self.may(client, handle / 10, Action::Read)).collect();
            self.clients[client].silent = still;
        }
        let (connections, sessions) = self.world.front().load();
        assert!(connections <= 4 && sessions <= 8, "{connections} connections, {sessions} sessions");
        self.count_forwarded();
        self.books.balance(&self.world.records, now.mono);
    }

    /// The client got something that the audit has to count.
    fn got(&mut self, client: usize, kind: AuditKind, scope: u32) {
        let session = self.session(client).session_id().expect("what arrives comes in a session").to_string();
        self.books.arrived(&session, kind, scope, self.world.now().mono);
    }

    /// Calls under way when the grant is over are remembered as such. One that still waits for the ledger is not under way:
    /// it is decided again before it is forwarded.
    fn note_calls(&mut self, client: usize) {
        let live = self.clients[client].grant.as_ref().is_some_and(Grant::is_live);
        for asked in self.clients[client].asked.values_mut() {
            if let Asked::Call { over, .. } = asked {
                *over |= !live && !self.slow_ledger;
            }
        }
    }

    fn next_event(&mut self, client: usize) -> Option<ClientEvent> {
        match self.world.peers.get_mut(&self.clients[client].conn) {
            Some(Peer::Session(peer)) => peer.events.pop_front(),
            _ => None,
        }
    }

    fn has_events(&self, client: usize) -> bool {
        matches!(self.world.peers.get(&self.clients[client].conn), Some(Peer::Session(peer)) if !peer.events.is_empty())
    }

    fn judge(&mut self, client: usize, event: ClientEvent) {
        let now = self.world.clock.latest();
        match event {
            ClientEvent::Activated(activated) => {
                let token = self.token_at_the_gate(client);
                assert!(self.in_step, "a token is accepted while the gate cannot know whether it was revoked");
                assert!(!self.revoked.contains(&token.id), "a revoked token is accepted");
                assert!(token.is_in_time(now), "a token out of its time is accepted");
                let replaced = self.held_after.get(&token.id).copied();
                self.clients[client].current = token.clone();
                self.clients[client].grant = Some(Grant::presented(token, replaced, now));
                if activated == ua_proto::client::Activated::Fresh {
                    self.clients[client].subscription = None;
                    self.clients[client].items.clear();
                    self.clients[client].silent.clear();
                    self.clients[client].heard.clear();
                }
            }
            ClientEvent::Refused(_) => {
                let tried = self.clients[client].trying.take();
                self.clients[client].refused = tried.clone().or(self.clients[client].refused.take());
                let good = |token: &Minted| !self.revoked.contains(&token.id) && token.is_in_time(now);
                assert!(!(self.in_step && tried.as_ref().is_some_and(good)), "a good token is refused");
            }
            ClientEvent::Answer(call, answer) => {
                let asked = self.clients[client].asked.remove(&call);
                match (asked, answer) {
                    (Some(asked), Ok(response)) => self.answered(client, asked, response),
                    (Some(Asked::Publish | Asked::Items(_)), Err(StatusCode::BadNoSubscription)) => {
                        self.clients[client].subscription = None;
                        self.clients[client].items.clear();
                    }
                    (Some(Asked::Publish), Err(StatusCode::BadTooManyPublishRequests)) => {}
                    (Some(asked), Err(status)) => {
                        self.clients[client].turned_away = true;
                        let live = self.is_served(client);
                        assert!(
                            !live || status == StatusCode::BadTimeout || (self.rough && is_rough(status)),
                            "{asked:?} of a live session failed: {status}"
                        );
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
    }

    /// The token that was just accepted: of those the client may have sent, the newest that the gate holds.
    fn token_at_the_gate(&mut self, client: usize) -> Minted {
        let held: BTreeSet<&str> =
            self.world.front().gate().grants().filter_map(|(_, facts)| facts.id.as_deref()).collect();
        let known = &mut self.clients[client];
        let sent = [known.trying.take(), known.refused.clone(), Some(known.current.clone())];
        let mut accepted = sent.into_iter().flatten().filter(|token| held.contains(token.id.as_str()));
        accepted.next().expect("the gate holds the token of an activated session")
    }

    /// Whether the client's session is live and the gate serves it.
    pub(super) fn is_served(&self, client: usize) -> bool {
        self.in_step && self.clients[client].grant.as_ref().is_some_and(Grant::is_live)
    }

    pub(super) fn may(&self, client: usize, scope: u32, action: Action) -> bool {
        let rights = self.clients[client].grant.as_ref().map(|grant| grant.rights(scope));
        self.is_served(client) && rights.is_some_and(|rights| rights.contains(action.needed()))
    }

    fn answered(&mut self, client: usize, asked: Asked, response: Response) {
        match (asked, response) {
            (Asked::Read, Response::Read(response)) => {
                for ((scope, which), value) in variables().zip(response.results.unwrap_or_default()) {
                    let wanted = self.may(client, scope, Action::Read).then(|| self.values[&(scope, which)]);
                    let told = number(&value);
                    // An answer that was kept back was decided at an earlier moment, and is looked at again when it comes.
                    let fits = told == wanted || (self.rough && (told.is_none() || wanted.is_some()));
                    assert!(fits, "client {client} reads {scope}/{which}: {value:?}, not {wanted:?}");
                    if told.is_some() {
                        self.seen.read += 1;
                        self.got(client, AuditKind::Read, scope);
                    }
                }
            }
            (Asked::Access, Response::Read(response)) => {
                for ((scope, which), value) in variables().zip(response.results.unwrap_or_default()) {
                    let bit = |action, bit| if self.may(client, scope, action) { bit } else { 0 };
                    let wanted = bit(Action::Read, 1) | bit(Action::Write, 2);
                    let wanted = self.may(client, scope, Action::Browse).then_some(wanted);
                    let told = match value.value {
                        Some(Variant::Byte(level)) => Some(level & 3),
                        _ => None,
                    };
                    let fits = told == wanted
                        || (self.rough && told.is_none_or(|told| wanted.is_some_and(|all| told & !all == 0)));
                    assert!(fits, "client {client} is told what it may do with {scope}/{which}");
                    if told.is_some() {
                        self.got(client, AuditKind::Browse, scope);
                    }
                }
            }
            (Asked::Browse, Response::Browse(response)) => {
                let found =
                    response.results.into_iter().flatten().flat_map(|result| result.references.unwrap_or_default());
                let names: BTreeSet<String> = found.map(|reference| reference.browse_name.name.to_string()).collect();
                for (scope, name) in (1..).zip(SCOPES) {
                    let wanted = self.may(client, scope, Action::Browse);
                    let fits = names.contains(name) == wanted || (self.rough && wanted);
                    assert!(fits, "client {client} sees `{name}` among {names:?}");
                }
            }
            (Asked::Write { scope }, Response::Write(response)) => {
                let good = response.results == Some(vec![StatusCode::Good]);
                let allowed = self.may(client, scope, Action::Write);
                // One that waited for the ledger was decided when it came.
                assert!(
                    good == allowed || self.slow_ledger || self.rough,
                    "client {client} writes to {scope}: {:?}",
                    response.results
                );
            }
            (Asked::Call { scope, over }, Response::Call(response)) => {
                let told = !over && self.may(client, scope, Action::Call);
                for result in response.results.unwrap_or_default() {
                    // Of a call that was forwarded before the right ended, the status goes out and nothing else.
                    let outputs = result.output_arguments.unwrap_or_default();
                    assert!(outputs.is_empty() || told, "a result without the right to call");
                }
            }
            (Asked::Subscribe, Response::CreateSubscription(response)) => {
                self.clients[client].subscription = Some(response.subscription_id);
            }
            (Asked::Items(asked), Response::CreateMonitoredItems(response)) => {
                for ((scope, which), result) in asked.into_iter().zip(response.results.unwrap_or_default()) {
                    let seen = result.status_code.is_good();
                    assert!(
                        seen == self.may(client, scope, Action::Browse) || self.rough,
                        "item {scope}/{which}: {}",
                        result.status_code
                    );
                    if seen {
                        self.clients[client].items.insert(10 * scope + which);
                    }
                }
            }
            (Asked::Publish, Response::Publish(response)) => {
                for part in response.notification_message.notification_data.unwrap_or_default() {
                    if let Some(change) = part.into_inner_as::<DataChangeNotification>() {
                        self.heard(client, &change);
                    }
                }
            }
            (asked, other) => panic!("{asked:?} was answered with {other:?}"),
        }
    }

    fn items(&mut self, client: usize, subscription_id: u32, missing: Vec<(u32, u32)>) {
        let item = |(scope, which)| MonitoredItemCreateRequest {
            item_to_monitor: ReadValueId {
                node_id: variable_id(scope, which),
                attribute_id: AttributeId::Value as u32,
                ..ReadValueId::default()
            },
            monitoring_mode: MonitoringMode::Reporting,
            requested_parameters: MonitoringParameters {
                client_handle: 10 * scope + which,
                sampling_interval: 0.0,
                queue_size: 5,
                discard_oldest: true,
                ..MonitoringParameters::default()
            },
        };
        let request = CreateMonitoredItemsRequest {
            subscription_id,
            timestamps_to_return: TimestampsToReturn::Neither,
            items_to_create: Some(missing.iter().copied().map(item).collect()),
            ..CreateMonitoredItemsRequest::default()
        };
        self.ask(client, request, Asked::Items(missing));
    }

    /// A subscription gets the items that its session may see, and is never left without Publish requests while the session is served.
    fn keep_publishing(&mut self, client: usize) {
        let Some(subscription) = self.clients[client].subscription else { return };
        let waiting =
            |client: &Client, kind: fn(&Asked) -> bool| client.asked.values().filter(|asked| kind(asked)).count();
        if !self.is_served(client) || !self.session(client).is_active() || self.clients[client].turned_away {
            return;
        }
        if waiting(&self.clients[client], |asked| matches!(asked, Asked::Items(_))) == 0 {
            let has = |(scope, which): &(u32, u32)| self.clients[client].items.contains(&(10 * scope + which));
            let visible = |(scope, _): &(u32, u32)| self.may(client, *scope, Action::Browse);
            let missing: Vec<_> = variables().filter(|at| visible(at) && !has(at)).collect();
            if !missing.is_empty() {
                self.items(client, subscription, missing);
            }
        }
        for _ in waiting(&self.clients[client], |asked| matches!(asked, Asked::Publish))..3 {
            self.ask(client, PublishRequest::default(), Asked::Publish);
        }
    }

    fn heard(&mut self, client: usize, change: &DataChangeNotification) {
        for item in change.monitored_items.iter().flatten() {
            let (handle, scope) = (item.client_handle, item.client_handle / 10);
            match number(&item.value) {
                Some(value) => {
                    assert!(
                        self.may(client, scope, Action::Read),
                        "client {client} hears {handle} without the right to read"
                    );
                    self.clients[client].silent.remove(&handle);
                    self.clients[client].heard.insert(handle, value);
                    self.seen.heard += 1;
                    self.got(client, AuditKind::Notify, scope);
                }
                None => {
                    assert!(item.value.value.is_none(), "a denial carries a value");
                    assert!(self.clients[client].silent.insert(handle), "item {handle} is denied twice in a row");
                }
            }
        }
    }

    /// Invariant 1: each write and call that reached the application has its record, and none more.
    fn count_forwarded(&mut self) {
        for (node, value) in self.world.written.drain(..) {
            let at = variables()
                .find(|(scope, which)| variable_id(*scope, *which) == node)
                .expect("a variable of the plant");
            self.values.insert(at, number(&value).expect("a number was written"));
            self.seen.written += 1;
        }
        self.seen.called = self.world.invocations;
        let allowed = |kind| {
            let records = self.world.records.iter().filter(move |record| record.kind == kind);
            records.filter(|record| record.outcome == Outcome::Allowed).map(|record| record.count).sum::<u64>()
        };
        for (kind, forwarded) in [(AuditKind::Write, self.seen.written), (AuditKind::Call, self.seen.called)] {
            // What waited for its record and lost its right meanwhile is recorded and not forwarded.
            let records = allowed(kind);
            assert!(
                records == forwarded || ((self.slow_ledger || self.rough) && records > forwarded),
                "{kind:?}: {forwarded}, {records} records"
            );
        }
    }
}

/// What a live session may be told while the plant is out of reach.
fn is_rough(status: StatusCode) -> bool {
    use StatusCode as S;
    [
        S::BadServerNotConnected,
        S::BadConnectionClosed,
        S::BadCommunicationError,
        S::BadNoSubscription,
        S::BadSubscriptionIdInvalid,
    ]
    .contains(&status)
}
