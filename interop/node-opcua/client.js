// The node-opcua client: takes the steps of interop/README.md against any server and prints one JSON line for each.
"use strict";

const fs = require("node:fs");
const {
    AttributeIds, ClientReverseConnect, constructEventFilter, DataType, MessageSecurityMode, MonitoringMode, ObjectTypeIds, ofType, OPCUAClient, TimestampsToReturn, UserTokenType,
} = require("node-opcua-client");
const { NAMESPACE, options, pem, quiet, report, store } = require("./shared");

const given = options([
    "url", "policy", "mode", "cert", "key", "trust", "anonymous", "user", "x509", "jwt", "legacy", "clear", "steps", "changes",
    "listen", "renew",
]);
const wanted = Number(given.changes ?? 60);
const taken = (given.steps ?? "connect,browse,read,write,call,subscribe,reconnect").split(",");
let client, session, namespace, manager, watched, listener, listening;

function identity() {
    if (given.user) {
        const [userName, password] = given.user.split(/:(.*)/s);
        return { type: UserTokenType.UserName, userName, password };
    }
    if (given.x509) {
        const [certificate, key] = given.x509.split(",");
        return { type: UserTokenType.Certificate, certificateData: fs.readFileSync(certificate), privateKey: fs.readFileSync(key, "ascii") };
    }
    return { type: UserTokenType.Anonymous };
}

// A status code travels in different places: in the answer, in the error, or only in its text.
function fail(statusCode, what) {
    const error = new Error(`${what}: ${statusCode.name}`);
    error.statusCode = statusCode;
    return error;
}

function statusOf(error) {
    const code = error.statusCode ?? error.response?.responseHeader?.serviceResult;
    return code?.value;
}

const node = (name) => `ns=${namespace};s=${name}`;

function within(what, act) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what} in 300 s`)), 300_000);
    });
    return Promise.race([new Promise(act), late]).finally(() => clearTimeout(timer));
}

const subscribed = () =>
    session.createSubscription2({
        requestedPublishingInterval: 50,
        requestedLifetimeCount: 1000,
        requestedMaxKeepAliveCount: 20,
        maxNotificationsPerPublish: 0,
        publishingEnabled: true,
        priority: 1,
    });

// Counts the changes of Ticks.
async function watch(subscription) {
    const changes = { seen: 0, last: 0, restarted: false, fault: undefined, told: () => {} };
    const item = { nodeId: node("Line.Ticks"), attributeId: AttributeIds.Value };
    const monitored = await subscription.monitor(item, { samplingInterval: 20, queueSize: 10, discardOldest: true }, TimestampsToReturn.Both);
    if (monitored.statusCode.value !== 0) {
        throw fail(monitored.statusCode, "item");
    }
    monitored.on("changed", (value) => {
        // Good may come with a word that values between were lost.
        if (value.statusCode.value & 0xc0000000) {
            changes.fault = fail(value.statusCode, "change");
        } else {
            changes.seen += 1;
            changes.restarted ||= value.value.value < changes.last;
            changes.last = value.value.value;
        }
        changes.told();
    });
    monitored.on("err", (message) => {
        changes.fault = new Error(message);
        changes.told();
    });
    changes.more = (count) => {
        const from = changes.seen;
        return within(`fewer than ${count} changes`, (resolve, reject) => {
            changes.told = () => (changes.fault ? reject(changes.fault) : changes.seen - from >= count && resolve());
            changes.told();
        });
    };
    return changes;
}

function expectLoss() {
    watched.gone = false;
    watched.lost = new Promise((resolve) => client.once("connection_lost", resolve)).then(() => (watched.gone = true));
}

const steps = {
    async connect() {
        const secure = (given.policy ?? "None") !== "None";
        manager ??= await store(given.trust);
        client = OPCUAClient.create({
            applicationName: "interop",
            applicationUri: "urn:trapkey:interop:node-opcua",
            securityPolicy: given.policy ?? "None",
            securityMode: MessageSecurityMode[given.mode ?? "None"],
            endpointMustExist: false,
            // Who is to recover tries again and again; else a connection is there or it is not.
            connectionStrategy: taken.includes("recover") ? { maxRetry: -1, initialDelay: 100, maxDelay: 500 } : { maxRetry: 0, initialDelay: 100 },
            clientCertificateManager: manager,
            defaultTransactionTimeout: 60_000,
            ...(given.cert ? { certificateFile: pem(given.cert), privateKeyFile: given.key } : {}),
            ...(secure ? { serverCertificate: fs.readFileSync(given.trust) } : {}),
        });
        if (given.listen) {
            listener ??= new ClientReverseConnect(`opc.tcp://127.0.0.1:${given.listen}`);
            await (listening ??= listener.start());
            await client.connectReverse(listener, { endpointUrl: given.url });
        } else {
            await client.connect(given.url);
        }
        session = await client.createSession(identity());
        const array = await session.read({ nodeId: "i=2255", attributeId: AttributeIds.Value });
        namespace = Array.from(array.value.value).indexOf(NAMESPACE);
        if (namespace < 0) {
            throw new Error("the server does not have the namespace");
        }
        return `namespace ${namespace}`;
    },

    async browse() {
        const children = await session.browse({ nodeId: node("Line"), resultMask: 63, nodeClassMask: 0, includeSubtypes: true, referenceTypeId: "i=33" });
        const names = children.references.map((reference) => reference.browseName.name);
        const missing = ["Ticks", "Setpoint", "Add"].filter((name) => !names.includes(name));
        if (missing.length > 0) {
            throw children.statusCode.value ? fail(children.statusCode, "browse") : new Error(`browse does not show ${missing}`);
        }
        const top = await session.browse("i=85");
        if (!top.references.some((reference) => reference.nodeId.value === "Line")) {
            throw new Error("Objects does not show Line");
        }
        return names.sort().join(",");
    },

    // The thousand variables, a hundred at a time.
    async many() {
        session.requestedMaxReferencesPerNode = 100;
        const what = { nodeId: node("Line.Many"), resultMask: 63, nodeClassMask: 0, includeSubtypes: true, referenceTypeId: "i=33" };
        let page = await session.browse(what);
        let requests = 1;
        const names = [];
        for (;;) {
            if (page.statusCode.value !== 0) {
                throw fail(page.statusCode, "browse");
            }
            names.push(...page.references.map((reference) => reference.browseName.name));
            if (!page.continuationPoint?.length) {
                break;
            }
            page = await session.browseNext(page.continuationPoint, false);
            requests += 1;
        }
        names.sort();
        if (names.length !== 1000 || names.some((name, at) => name !== `Value${String(at).padStart(4, "0")}`)) {
            throw new Error(`${names.length} names in ${requests} requests`);
        }
        return `1000 in ${requests} requests`;
    },

    async read() {
        const value = await session.read({ nodeId: node("Line.Ticks"), attributeId: AttributeIds.Value });
        if (value.statusCode.value !== 0) {
            throw fail(value.statusCode, "read");
        }
        if (!value.sourceTimestamp) {
            throw new Error("no source timestamp");
        }
        return String(value.value.value);
    },

    async write() {
        const nodeId = node("Line.Setpoint");
        const status = await session.write({ nodeId, attributeId: AttributeIds.Value, value: { value: { dataType: DataType.Double, value: 42.5 } } });
        if (status.value !== 0) {
            throw fail(status, "write");
        }
        const value = await session.read({ nodeId, attributeId: AttributeIds.Value });
        if (value.value.value !== 42.5) {
            throw new Error(`wrote 42.5, read ${value.value.value}`);
        }
        return "42.5";
    },

    async call() {
        const number = (value) => ({ dataType: DataType.Double, value });
        const answer = await session.call({ objectId: node("Line"), methodId: node("Line.Add"), inputArguments: [number(1.5), number(2.25)] });
        if (answer.statusCode.value !== 0) {
            throw fail(answer.statusCode, "call");
        }
        const total = answer.outputArguments[0].value;
        if (total !== 3.75) {
            throw new Error(`1.5 + 2.25 gave ${total}`);
        }
        return "3.75";
    },

    async subscribe() {
        const subscription = await subscribed();
        const changes = await watch(subscription);
        try {
            await changes.more(wanted);
        } finally {
            await subscription.terminate();
        }
        return `${changes.seen} changes`;
    },

    // Hears of the own write by an audit event. Others may write as well: their events have other values.
    async events() {
        const names = ["EventType", "SourceName", "Message", "Status", "ClientUserId", "NewValue"];
        const filter = constructEventFilter(names, ofType("AuditWriteUpdateEventType"));
        const subscription = await subscribed();
        let event;
        try {
            const item = { nodeId: "i=2253", attributeId: AttributeIds.EventNotifier };
            const monitored = await subscription.monitor(item, { samplingInterval: 0, queueSize: 100, discardOldest: true, filter }, TimestampsToReturn.Both);
            if (monitored.statusCode.value !== 0) {
                throw fail(monitored.statusCode, "event item");
            }
            event = await within("no audit event of the write", (resolve, reject) => {
                monitored.on("changed", (fields) => {
                    const told = Object.fromEntries(names.map((name, at) => [name, fields[at].value]));
                    if (told.NewValue === 42.25) {
                        resolve(told);
                    }
                });
                session.write({ nodeId: node("Line.Setpoint"), attributeId: AttributeIds.Value, value: { value: { dataType: DataType.Double, value: 42.25 } } })
                    .then((status) => status.value !== 0 && reject(fail(status, "write")), reject);
            });
        } finally {
            await subscription.terminate();
        }
        const right = event.EventType.value === ObjectTypeIds.AuditWriteUpdateEventType && event.SourceName === "Attribute/Write" && event.Status === true;
        if (!right || !event.Message.text || (given.user && event.ClientUserId !== given.user.split(":")[0])) {
            throw new Error(`the event says ${JSON.stringify(event)}`);
        }
        return `${event.Message.text} by ${event.ClientUserId}`;
    },

    // What Setpoint was made before, the newest first.
    async past() {
        const nodeId = node("Line.Setpoint");
        for (const value of [1.25, 2.25, 3.25]) {
            const status = await session.write({ nodeId, attributeId: AttributeIds.Value, value: { value: { dataType: DataType.Double, value } } });
            if (status.value !== 0) {
                throw fail(status, "write");
            }
        }
        let values;
        for (let round = 0; round < 300; round += 1) {
            const [late, early] = [new Date(Date.now() + 3600_000), new Date(Date.now() - 3600_000)];
            const result = await session.readHistoryValue(nodeId, late, early, { numValuesPerNode: 3, returnBounds: false });
            if (result.statusCode.isNotGood()) {
                throw fail(result.statusCode, "history");
            }
            values = result.historyData.dataValues.map((value) => value.value.value).join(",");
            if (values === "3.25,2.25,1.25") {
                return values;
            }
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
        throw new Error(`the history says ${values}`);
    },

    // A subscription goes to another session of the same user, which hears of the changes from then on.
    async transfer() {
        const subscription = await subscribed();
        await (await watch(subscription)).more(3);
        const other = await client.createSession(identity());
        try {
            const ended = within("the first session is not told", (resolve) => subscription.once("status_changed", resolve));
            const moved = await other.transferSubscriptions({ subscriptionIds: [subscription.subscriptionId], sendInitialValues: true });
            if (moved.results[0].statusCode.value !== 0) {
                throw fail(moved.results[0].statusCode, "transfer");
            }
            let seen = 0;
            while (seen < 10) {
                const { subscriptionId, notificationMessage } = await other.publish({ subscriptionAcknowledgements: [] });
                if (subscriptionId !== subscription.subscriptionId) {
                    throw new Error(`a message of subscription ${subscriptionId}`);
                }
                seen += notificationMessage.notificationData.reduce((sum, one) => sum + (one.monitoredItems?.length ?? 0), 0);
            }
            return `${seen} changes, the first session heard ${(await ended).name}`;
        } finally {
            await other.close();
        }
    },

    // Values of Ticks as they were, page by page, and how many of them there are as an aggregate.
    async history() {
        const [start, end] = [new Date(Date.now() - 60000), new Date(Date.now() + 60000)];
        const result = await session.readHistoryValue(node("Line.Ticks"), start, end, { numValuesPerNode: 20, returnBounds: false });
        if (result.statusCode.value !== 0) {
            throw fail(result.statusCode, "history");
        }
        const values = result.historyData.dataValues.map((value) => value.value.value);
        if (values.length !== 20 || values.some((value, at) => at > 0 && value < values[at - 1])) {
            throw new Error(`the values are ${values}`);
        }
        const last = result.historyData.dataValues[19].sourceTimestamp;
        const processed = await session.readAggregateValue({ nodeId: node("Line.Ticks") }, start, new Date(last.getTime() + 1), 2352, 0);
        const count = processed.historyData?.dataValues ?? [];
        if (count.length !== 1 || Math.abs(count[0].value.value - 20) > 1) {
            throw new Error(`the aggregate says ${processed}`);
        }
        return `${values[0]} to ${values[19]}, ${count[0].value.value} of them`;
    },

    // Setpoint is only sampled, and reported when Ticks changes.
    async trigger() {
        const subscription = await subscribed();
        try {
            const monitor = (name, mode) =>
                subscription.monitor({ nodeId: node(name), attributeId: AttributeIds.Value },
                    { samplingInterval: 20, queueSize: 10, discardOldest: true }, TimestampsToReturn.Both, mode);
            const ticks = await monitor("Line.Ticks", MonitoringMode.Reporting);
            const setpoint = await monitor("Line.Setpoint", MonitoringMode.Sampling);
            const told = within("nothing was triggered", (resolve) => setpoint.once("changed", (value) => resolve(value.value.value)));
            const { subscriptionId } = subscription;
            const linked = await session.setTriggering({
                subscriptionId, triggeringItemId: ticks.monitoredItemId, linksToAdd: [setpoint.monitoredItemId],
            });
            if (linked.addResults[0].value !== 0) {
                throw fail(linked.addResults[0], "link");
            }
            return `${await told}`;
        } finally {
            await subscription.terminate();
        }
    },

    // A subscription that `recover` goes on with, after somebody has cut the connection.
    async watch() {
        const subscription = await subscribed();
        watched = { changes: await watch(subscription), id: session.sessionId.toString() };
        expectLoss();
        await watched.changes.more(10);
        return `${watched.changes.seen} changes`;
    },

    // The changes go on when Ticks began anew.
    async resume() {
        const { changes } = watched;
        await within("Ticks do not begin anew", (resolve, reject) => {
            changes.told = () => (changes.fault ? reject(changes.fault) : changes.restarted && resolve());
            changes.told();
        });
        await changes.more(wanted);
        const anew = watched.gone ? ", connected anew" : "";
        expectLoss();
        return `${wanted} changes${anew}`;
    },

    async recover() {
        const { changes, lost, id } = watched;
        await within("the connection is not lost", (resolve) => lost.then(resolve));
        if (client.isReconnecting) {
            await within("no new connection", (resolve) => client.once("after_reconnection", resolve));
        }
        await changes.more(wanted);
        const last = Number(await steps.read());
        if (Math.abs(last - changes.last) > 3000) {
            throw new Error(`the last change told of ${changes.last}, Ticks are at ${last}`);
        }
        return session.sessionId.toString() === id ? "the same session" : "a new session";
    },

    // Signs in anew while changes come: each comes, and comes once, in messages whose numbers go on without a gap.
    async renew() {
        const [nodeId, written, heard] = [node("Line.Setpoint"), [], []];
        let [number, fault, told] = [0, undefined, () => {}];
        const write = async () => {
            written.push(500 + written.length);
            const value = { value: { dataType: DataType.Double, value: written.at(-1) } };
            const status = await session.write({ nodeId, attributeId: AttributeIds.Value, value });
            if (status.value !== 0) {
                throw fail(status, "write");
            }
        };
        await write();
        const subscription = await subscribed();
        subscription.on("raw_notification", ({ sequenceNumber, notificationData }) => {
            number += notificationData?.length ? 1 : 0;
            if (notificationData?.length && sequenceNumber !== number) {
                fault = new Error(`message ${sequenceNumber} instead of ${number}`);
            }
        });
        const ticks = await watch(subscription);
        const setpoint = await subscription.monitor({ nodeId, attributeId: AttributeIds.Value },
            { samplingInterval: 20, queueSize: 10, discardOldest: true }, TimestampsToReturn.Both);
        setpoint.on("changed", (value) => {
            heard.push(value.value.value);
            told();
        });
        const all = () => within(`${written.length} were written, ${heard.length} came`, (resolve, reject) => {
            told = () => (fault ? reject(fault) : heard.join() === written.join() && resolve());
            told();
        });
        for (let round = 0; round < 3; round += 1) {
            for (let change = 0; change < 5; change += 1) {
                await all();
                await write();
            }
            const status = await session.changeUser(identity());
            if (status.value !== 0) {
                throw fail(status, "sign in");
            }
            await all();
            await ticks.more(10);
        }
        await subscription.terminate();
        return `${written.length} changes`;
    },

    async reconnect() {
        await session.close();
        await client.disconnect();
        await steps.connect();
        return steps.read();
    },
};

async function main() {
    quiet();
    if (given.jwt) {
        report("connect", false, "node-opcua's client has no issued tokens");
        return 1;
    }
    let well = true;
    for (const step of taken) {
        try {
            report(step, true, await steps[step]());
        } catch (error) {
            well = report(step, false, error.message, statusOf(error));
            if (["connect", "reconnect", "recover"].includes(step)) {
                break;
            }
        }
    }
    await session?.close().catch(() => {});
    await client?.disconnect().catch(() => {});
    await listener?.stop();
    await manager?.dispose();
    return well ? 0 : 1;
}

main().then((code) => process.exit(code));
