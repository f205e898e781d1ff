// The node-opcua client: takes the steps of interop/README.md against any server and prints one JSON line for each.
"use strict";

const fs = require("node:fs");
const { AttributeIds, DataType, MessageSecurityMode, OPCUAClient, TimestampsToReturn, UserTokenType } = require("node-opcua-client");
const { NAMESPACE, options, pem, quiet, report, store } = require("./shared");

const given = options([
    "url", "policy", "mode", "cert", "key", "trust", "anonymous", "user", "x509", "jwt", "legacy", "clear", "steps", "changes",
]);
const wanted = Number(given.changes ?? 60);
let client, session, namespace, manager;

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
            connectionStrategy: { maxRetry: 0, initialDelay: 100 },
            clientCertificateManager: manager,
            ...(given.cert ? { certificateFile: pem(given.cert), privateKeyFile: given.key } : {}),
            ...(secure ? { serverCertificate: fs.readFileSync(given.trust) } : {}),
        });
        await client.connect(given.url);
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
        const subscription = await session.createSubscription2({
            requestedPublishingInterval: 50,
            requestedLifetimeCount: 1000,
            requestedMaxKeepAliveCount: 20,
            maxNotificationsPerPublish: 0,
            publishingEnabled: true,
            priority: 1,
        });
        let seen = 0;
        let timer;
        try {
            await new Promise((resolve, reject) => {
                timer = setTimeout(() => reject(new Error(`${seen} of ${wanted} changes in 30 s`)), 30_000);
                const watch = async () => {
                    const item = { nodeId: node("Line.Ticks"), attributeId: AttributeIds.Value };
                    const monitored = await subscription.monitor(item, { samplingInterval: 20, queueSize: 10, discardOldest: true }, TimestampsToReturn.Both);
                    monitored.on("changed", (value) => {
                        if (value.statusCode.value !== 0) {
                            reject(fail(value.statusCode, "change"));
                        }
                        seen += 1;
                        if (seen >= wanted) {
                            resolve();
                        }
                    });
                    monitored.on("err", (message) => reject(new Error(message)));
                };
                watch().catch(reject);
            });
        } finally {
            clearTimeout(timer);
            await subscription.terminate();
        }
        return `${seen} changes`;
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
    for (const step of (given.steps ?? "connect,browse,read,write,call,subscribe,reconnect").split(",")) {
        try {
            report(step, true, await steps[step]());
        } catch (error) {
            well = report(step, false, error.message, statusOf(error));
            if (step === "connect" || step === "reconnect") {
                break;
            }
        }
    }
    await session?.close().catch(() => {});
    await client?.disconnect().catch(() => {});
    await manager?.dispose();
    return well ? 0 : 1;
}

main().then((code) => process.exit(code));
