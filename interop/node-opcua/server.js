// The node-opcua server: the fixture of interop/README.md, to be read by our client and by the other stacks.
"use strict";

const path = require("node:path");
const { DataType, MessageSecurityMode, SecurityPolicy, StatusCodes, Variant } = require("node-opcua-client");
const { OPCUAServer } = require("node-opcua-server");
const { NAMESPACE, options, pem, quiet, report, store } = require("./shared");

const given = options(["port", "cert", "key", "trust", "user", "call", "history", "many", "sessions", "ticks"]);
const [userName, password] = given.user.split(/:(.*)/s);

function populate(server) {
    const space = server.engine.addressSpace;
    const own = space.registerNamespace(NAMESPACE);
    const line = own.addObject({ organizedBy: space.rootFolder.objects, browseName: "Line", nodeId: "s=Line" });
    const ticks = own.addVariable({
        componentOf: line, browseName: "Ticks", nodeId: "s=Line.Ticks", dataType: "UInt32", accessLevel: "CurrentRead", userAccessLevel: "CurrentRead",
        minimumSamplingInterval: 10, value: { dataType: DataType.UInt32, value: 0 },
    });
    const access = `CurrentRead | CurrentWrite${given.history ? " | HistoryRead" : ""}`;
    const setpoint = own.addVariable({
        componentOf: line, browseName: "Setpoint", nodeId: "s=Line.Setpoint", dataType: "Double", accessLevel: access,
        userAccessLevel: access, value: { dataType: DataType.Double, value: 20.0 },
    });
    if (given.history) {
        space.installHistoricalDataNode(setpoint);
    }
    const argument = (name) => ({ name, dataType: DataType.Double, description: name });
    const add = own.addMethod(line, {
        browseName: "Add", nodeId: "s=Line.Add", inputArguments: [argument("left"), argument("right")], outputArguments: [argument("sum")],
    });
    add.bindMethod((inputs, _context, callback) => {
        const value = inputs[0].value + inputs[1].value;
        callback(null, { statusCode: StatusCodes.Good, outputArguments: [new Variant({ dataType: DataType.Double, value })] });
    });
    if (given.many) {
        const many = own.addObject({ componentOf: line, browseName: "Many", nodeId: "s=Line.Many", typeDefinition: "FolderType" });
        for (let number = 0; number < 1000; number += 1) {
            own.addVariable({
                organizedBy: many, browseName: `Value${String(number).padStart(4, "0")}`, nodeId: `i=${10_000 + number}`, dataType: "UInt32",
                value: { dataType: DataType.UInt32, value: number },
            });
        }
    }
    return ticks;
}

async function main() {
    quiet();
    const server = new OPCUAServer({
        port: Number(given.port),
        hostname: "127.0.0.1",
        serverInfo: { applicationUri: `urn:trapkey:interop:${path.basename(given.cert, ".der")}` },
        certificateFile: pem(given.cert),
        privateKeyFile: given.key,
        serverCertificateManager: await store(given.trust),
        userCertificateManager: await store(given.trust),
        securityPolicies: [
            SecurityPolicy.None, SecurityPolicy.Basic256Sha256, SecurityPolicy.Aes128_Sha256_RsaOaep, SecurityPolicy.Aes256_Sha256_RsaPss,
        ],
        securityModes: [MessageSecurityMode.None, MessageSecurityMode.Sign, MessageSecurityMode.SignAndEncrypt],
        allowAnonymous: true,
        userManager: { isValidUser: (name, secret) => name === userName && secret === password },
        disableDiscovery: true,
        // Each connection carries one channel.
        ...(given.call ? { reverseConnect: { connections: Array(4).fill({ endpointUrl: given.call }), reconnectDelay: 200 } } : {}),
        serverCapabilities: { maxSessions: Number(given.sessions ?? 50) },
    });
    await server.initialize();
    const ticks = populate(server);
    await server.start();
    report("listening", true);
    let count = Number(given.ticks ?? 0);
    setInterval(() => {
        count += 1;
        ticks.setValueFromSource({ dataType: DataType.UInt32, value: count });
    }, 20);
    process.stdin.resume();
    process.stdin.on("end", async () => {
        await server.shutdown(100);
        process.exit(0);
    });
}

main().catch((error) => {
    report("listening", false, String(error.stack));
    process.exit(1);
});
