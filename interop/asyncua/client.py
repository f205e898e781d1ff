"""The asyncua client: takes the steps of interop/README.md against any server and prints one JSON line for each."""

import asyncio
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from asyncua import Client, ua
from asyncua.crypto import security_policies
from shared import ADD, LINE, MANY, NAMESPACE, SETPOINT, TICKS, client_options, quiet, report

POLICIES = {
    "Basic256Sha256": security_policies.SecurityPolicyBasic256Sha256,
    "Aes128_Sha256_RsaOaep": security_policies.SecurityPolicyAes128Sha256RsaOaep,
    "Aes256_Sha256_RsaPss": security_policies.SecurityPolicyAes256Sha256RsaPss,
}


class Changes:
    """Counts data changes until there are enough."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.seen, self.last, self.enough = wanted, 0, 0, asyncio.Event()
        self.restarted = asyncio.Event()

    def more(self, wanted: int) -> None:
        """Counts so many from here on."""
        self.wanted, self.seen = wanted, 0
        self.enough.clear()

    def datachange_notification(self, _node, value, _data) -> None:
        if value < self.last:
            self.restarted.set()
        self.seen, self.last = self.seen + 1, value
        if self.seen >= self.wanted:
            self.enough.set()


class Events:
    """Keeps the events that come."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue = asyncio.Queue()

    def event_notification(self, event) -> None:
        self.seen.put_nowait(event)


class Bearer(Client):
    """Signs in with an issued token, as it is: the library knows no such identity, but sends whatever one it is given."""

    token = b""

    async def activate_session(self, *_given, **_named) -> ua.ActivateSessionResult:
        clear = security_policies.SecurityPolicyNone.URI
        offered = [policy for policy in self._policy_ids if policy.TokenType == ua.UserTokenType.IssuedToken]
        challenge = self.security_policy.peer_certificate + self._server_nonce
        wanted = ua.ActivateSessionParameters()
        wanted.ClientSignature.Algorithm = self.security_policy.AsymmetricSignatureURI
        wanted.ClientSignature.Signature = self.security_policy.asymmetric_cryptography.signature(challenge)
        wanted.UserIdentityToken = ua.IssuedIdentityToken(TokenData=self.token)
        wanted.UserIdentityToken.PolicyId = next(one.PolicyId for one in offered if one.SecurityPolicyUri == clear)
        result = await self.uaclient.activate_session(wanted)
        self._server_nonce = result.ServerNonce
        return result


class Messages:
    """The values of two items, in messages whose numbers must go on without a gap."""

    def __init__(self) -> None:
        self.values, self.ticks, self.number, self.fault = [], 0, 0, None
        self.came = asyncio.Event()

    async def take(self, result: ua.PublishResult) -> None:
        message = result.NotificationMessage
        if message.NotificationData:
            self.number += 1
            if message.SequenceNumber != self.number:
                self.fault = f"message {message.SequenceNumber} instead of {self.number}"
        for data in message.NotificationData or []:
            for item in getattr(data, "MonitoredItems", []):
                if item.Value.StatusCode is not None:
                    item.Value.StatusCode.check()
                if item.ClientHandle == 1:
                    self.ticks += 1
                else:
                    self.values.append(item.Value.Value.Value)
        self.came.set()

    async def until(self, enough) -> None:
        """Waits for messages."""
        while not enough():
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 300)
            if self.fault:
                raise RuntimeError(self.fault)


def audit_filter() -> ua.EventFilter:
    """The fields of audit events, and only of those that tell of a write."""
    fields = ["EventType", "SourceName", "Message", "Status", "ClientUserId", "NewValue"]
    update = ua.NodeId(ua.ObjectIds.AuditWriteUpdateEventType)
    selected = []
    for name in fields:
        field = ua.SimpleAttributeOperand()
        field.TypeDefinitionId = update
        field.BrowsePath = [ua.QualifiedName(name, 0)]
        field.AttributeId = ua.AttributeIds.Value
        selected.append(field)
    of_type = ua.ContentFilterElement()
    of_type.FilterOperator = ua.FilterOperator.OfType
    of_type.FilterOperands = [ua.LiteralOperand(Value=ua.Variant(update))]
    wanted = ua.EventFilter()
    wanted.SelectClauses = selected
    wanted.WhereClause = ua.ContentFilter(Elements=[of_type])
    return wanted


def token(path: str) -> bytes:
    return Path(path).read_bytes().strip()


def thousand(names: list[str], requests: int) -> str:
    if sorted(names) != [f"Value{number:04}" for number in range(1000)]:
        raise RuntimeError(f"{len(names)} names in {requests} requests, {len(set(names))} different")
    return f"1000 in {requests} requests"


class Run:
    def __init__(self, options) -> None:
        self.options, self.client, self.namespace = options, None, 0
        self.watched, self.lost = None, asyncio.Event()

    def node(self, name: str):
        return self.client.get_node(ua.NodeId(name, self.namespace))

    async def connect(self) -> str:
        options = self.options
        recovers = "recover" in options.steps.split(",")
        self.client = (Bearer if options.jwt else Client)(options.url, timeout=60, auto_reconnect=recovers, watchdog_intervall=30)
        if options.jwt:
            self.client.token = token(options.jwt)
        self.client.application_uri = "urn:trapkey:interop:asyncua"
        if options.policy != "None":
            await self.client.set_security(
                POLICIES[options.policy],
                options.cert,
                options.key,
                server_certificate=options.trust,
                mode=getattr(ua.MessageSecurityMode, options.mode),
            )
        if options.user:
            name, password = options.user.split(":", 1)
            self.client.set_user(name)
            self.client.set_password(password)
        elif options.x509:
            certificate, key = options.x509.split(",")
            await self.client.load_client_certificate(certificate)
            await self.client.load_private_key(key)
        again = ""
        try:
            await self.client.connect()
            self.namespace = await self.client.get_namespace_index(NAMESPACE)
        except ua.uaerrors.BadServerNotConnected:
            # One that connects anew by itself may be doing so just now; its report says that it did.
            if not recovers:
                raise
            again = ", at the second try"
            await self.client.disconnect()
            await self.client.connect()
            self.namespace = await self.client.get_namespace_index(NAMESPACE)
        return f"namespace {self.namespace}{again}"

    async def browse(self) -> str:
        names = [(await child.read_browse_name()).Name for child in await self.node(LINE).get_children()]
        missing = {"Ticks", "Setpoint", "Add"} - set(names)
        if missing:
            raise RuntimeError(f"browse does not show {sorted(missing)}")
        top = [child.nodeid for child in await self.client.nodes.objects.get_children()]
        if ua.NodeId(LINE, self.namespace) not in top:
            raise RuntimeError("Objects does not show Line")
        return ",".join(sorted(names))

    async def many(self) -> str:
        """The thousand variables, a hundred at a time."""
        what = ua.BrowseDescription()
        what.NodeId = self.node(MANY).nodeid
        what.BrowseDirection = ua.BrowseDirection.Forward
        what.ReferenceTypeId = ua.NodeId(ua.ObjectIds.HierarchicalReferences)
        what.IncludeSubtypes = True
        what.ResultMask = ua.BrowseResultMask.All
        first = ua.BrowseParameters(RequestedMaxReferencesPerNode=100, NodesToBrowse=[what])
        [page] = await self.client.uaclient.browse(first)
        names, requests = [], 1
        while True:
            page.StatusCode.check()
            names += [reference.BrowseName.Name for reference in page.References]
            if not page.ContinuationPoint:
                break
            more = ua.BrowseNextParameters(ReleaseContinuationPoints=False, ContinuationPoints=[page.ContinuationPoint])
            [page] = await self.client.uaclient.browse_next(more)
            requests += 1
        return thousand(names, requests)

    async def read(self) -> str:
        value = await self.node(TICKS).read_data_value()
        if value.SourceTimestamp is None:
            raise RuntimeError("no source timestamp")
        return f"{value.Value.Value}"

    async def write(self) -> str:
        setpoint = self.node(SETPOINT)
        await setpoint.write_value(ua.DataValue(ua.Variant(41.5, ua.VariantType.Double)))
        value = await setpoint.read_value()
        if value != 41.5:
            raise RuntimeError(f"wrote 41.5, read {value}")
        return "41.5"

    async def call(self) -> str:
        total = await self.node(LINE).call_method(self.node(ADD).nodeid, 1.5, 2.25)
        if total != 3.75:
            raise RuntimeError(f"1.5 + 2.25 gave {total}")
        return "3.75"

    async def changes(self, wanted: int):
        """A subscription to Ticks, and what counts its changes."""
        changes = Changes(wanted)
        subscription = await self.client.create_subscription(50, changes)
        request = ua.MonitoredItemCreateRequest()
        request.ItemToMonitor = ua.ReadValueId(self.node(TICKS).nodeid, ua.AttributeIds.Value)
        request.MonitoringMode = ua.MonitoringMode.Reporting
        request.RequestedParameters = ua.MonitoringParameters(1, 20, None, 10, True)
        for handle in await subscription.create_monitored_items([request]):
            if isinstance(handle, ua.StatusCode):
                handle.check()
        return subscription, changes

    async def enough(self, changes: Changes) -> None:
        try:
            await asyncio.wait_for(changes.enough.wait(), 300)
        except TimeoutError:
            raise RuntimeError(f"{changes.seen} of {changes.wanted} changes in 300 s") from None

    async def subscribe(self) -> str:
        subscription, changes = await self.changes(self.options.changes)
        try:
            await self.enough(changes)
        finally:
            await subscription.delete()
        return f"{changes.seen} changes"

    async def watch(self) -> str:
        """A subscription that `recover` goes on with, after somebody has cut the connection."""

        async def lost(_error) -> None:
            self.lost.set()

        self.client.connection_lost_callback = lost
        _subscription, self.watched = await self.changes(10)
        await self.enough(self.watched)
        return "10 changes"

    async def resume(self) -> str:
        """The changes go on when Ticks began anew."""
        try:
            await asyncio.wait_for(self.watched.restarted.wait(), 300)
        except TimeoutError:
            raise RuntimeError("Ticks do not begin anew in 300 s") from None
        self.watched.more(self.options.changes)
        await self.enough(self.watched)
        anew = ", connected anew" if self.lost.is_set() else ""
        self.lost.clear()
        return f"{self.options.changes} changes{anew}"

    async def recover(self) -> str:
        await asyncio.wait_for(self.lost.wait(), 300)
        self.watched.more(self.options.changes)
        await self.enough(self.watched)
        last = self.watched.last
        now = int(await self.read())
        if abs(now - last) > 3000:
            raise RuntimeError(f"the last change told of {last}, Ticks are at {now}")
        return f"{self.options.changes} changes"

    async def events(self) -> str:
        """Hears of the own write by an audit event. Others may write as well: their events have other values."""
        events = Events()
        subscription = await self.client.create_subscription(50, events)
        try:
            await subscription.subscribe_events(ua.ObjectIds.Server, evfilter=audit_filter(), queuesize=100)
            await self.node(SETPOINT).write_value(ua.DataValue(ua.Variant(41.25, ua.VariantType.Double)))
            while True:
                event = await asyncio.wait_for(events.seen.get(), 300)
                if event.NewValue == 41.25:
                    break
        except TimeoutError:
            raise RuntimeError("no audit event of the write in 300 s") from None
        finally:
            await subscription.delete()
        told = (event.EventType.Identifier, event.SourceName, event.Status)
        if told != (ua.ObjectIds.AuditWriteUpdateEventType, "Attribute/Write", True) or not event.Message.Text:
            raise RuntimeError(f"{told}, {event.Message}")
        if self.options.user and event.ClientUserId != self.options.user.split(":")[0]:
            raise RuntimeError(f"the event says that {event.ClientUserId} wrote")
        return f"{event.Message.Text} by {event.ClientUserId}"

    async def past(self) -> str:
        """What Setpoint was made before, the newest first."""
        setpoint, wanted = self.node(SETPOINT), [1.25, 2.25, 3.25]
        for value in wanted:
            now = datetime.now(timezone.utc)
            await setpoint.write_value(ua.DataValue(ua.Variant(value, ua.VariantType.Double)))
        late = now + timedelta(hours=1)
        for _ in range(300):
            values = [one.Value.Value for one in await setpoint.read_raw_history(late, now - timedelta(hours=1), 3, False)]
            if values == wanted[::-1]:
                return ",".join(map(str, values))
            await asyncio.sleep(0.1)
        raise RuntimeError(f"the history says {values}")

    async def history(self) -> str:
        """The newest values of Ticks, then a value of the past that Setpoint did not have: put in, read, deleted."""
        later = datetime.now(timezone.utc) + timedelta(days=1)
        newest = [value.Value.Value for value in await self.node(TICKS).read_raw_history(None, later, 20, False)]
        if len(newest) != 20 or newest != sorted(newest, reverse=True):
            raise RuntimeError(f"the newest values are {newest}")
        setpoint, past = self.node(SETPOINT), datetime(2001, 1, 1, tzinfo=timezone.utc)
        value = ua.DataValue(ua.Variant(7.5, ua.VariantType.Double), SourceTimestamp=past)
        insert = ua.UpdateDataDetails(setpoint.nodeid, ua.PerformUpdateType.Insert, [value])
        await setpoint.history_update(insert)
        end = past + timedelta(seconds=1)
        found = [value.Value.Value for value in await setpoint.read_raw_history(past, end, 0, False)]
        if found != [7.5]:
            raise RuntimeError(f"put 7.5 into the past, found {found}")
        delete = ua.DeleteRawModifiedDetails(setpoint.nodeid, False, past, end)
        await setpoint.history_update(delete)
        if await setpoint.read_raw_history(past, end, 0, False):
            raise RuntimeError("what was deleted is still there")
        return f"{newest[-1]} to {newest[0]}"

    async def renew(self) -> str:
        """Presents fresh tokens while changes come: each comes, and comes once."""
        setpoint, messages, written = self.node(SETPOINT), Messages(), []

        async def write() -> None:
            written.append(500.0 + len(written))
            await setpoint.write_value(ua.DataValue(ua.Variant(written[-1], ua.VariantType.Double)))

        await write()
        asked = ua.CreateSubscriptionParameters(50, 10000, 20, 0, True, 0)
        created = await self.client.uaclient.create_subscription(asked, messages.take)
        items = ua.CreateMonitoredItemsParameters(created.SubscriptionId, ua.TimestampsToReturn.Both, [])
        for handle, node in ((1, self.node(TICKS)), (2, setpoint)):
            item = ua.MonitoredItemCreateRequest(ua.ReadValueId(node.nodeid, ua.AttributeIds.Value), ua.MonitoringMode.Reporting)
            item.RequestedParameters = ua.MonitoringParameters(handle, 20, None, 10, True)
            items.ItemsToCreate.append(item)
        for result in await self.client.uaclient.create_monitored_items(items):
            result.StatusCode.check()
        for path in self.options.renew.split(","):
            for _ in range(5):
                await messages.until(lambda: messages.values == written)
                await write()
            self.client.token, before = token(path), messages.ticks
            await self.client.activate_session()
            await messages.until(lambda: messages.values == written and messages.ticks >= before + 10)
        await self.client.uaclient.delete_subscriptions([created.SubscriptionId])
        return f"{len(written)} changes"

    async def reconnect(self) -> str:
        await self.client.disconnect()
        await self.connect()
        return await self.read()


async def main() -> int:
    quiet()
    options = client_options()
    run, well = Run(options), True
    for step in options.steps.split(","):
        try:
            well &= report(step, True, await getattr(run, step)())
        except Exception as error:
            well = report(step, False, f"{type(error).__name__}: {error}", getattr(error, "code", None))
            if step in ("connect", "reconnect", "recover"):
                break
    if run.client:
        try:
            await run.client.disconnect()
        except Exception:
            pass
    return 0 if well else 1


sys.exit(asyncio.run(main()))
