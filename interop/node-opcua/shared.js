// What the node-opcua client and server share: the command line, the JSON lines and a certificate store that trusts what it was given.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { parseArgs } = require("node:util");
const { OPCUACertificateManager } = require("node-opcua-certificate-manager");

const NAMESPACE = "urn:trapkey:interop";

function report(step, ok, detail = "", status = undefined) {
    const line = { step, ok, detail };
    if (status !== undefined) {
        line.status = "0x" + (status >>> 0).toString(16).toUpperCase().padStart(8, "0");
    }
    process.stdout.write(JSON.stringify(line) + "\n");
    return ok;
}

// The libraries log to the console; the JSON lines are all that may stand on standard output.
function quiet() {
    for (const name of ["log", "info", "warn", "error", "debug"]) {
        console[name] = () => {};
    }
}

function options(names) {
    const string = { type: "string" };
    const flags = ["anonymous", "legacy", "clear", "history", "many"];
    const known = Object.fromEntries(names.map((name) => [name, flags.includes(name) ? { type: "boolean" } : string]));
    return parseArgs({ options: known, strict: true }).values;
}

// A store in a fresh folder that holds exactly the certificates of `trust` (paths, separated by commas).
async function store(trust) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "interop-node-opcua-"));
    process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
    const manager = new OPCUACertificateManager({
        rootFolder: folder,
        automaticallyAcceptUnknownCertificate: false,
        disableFileWatchers: true,
    });
    await manager.initialize();
    for (const file of (trust || "").split(",").filter(Boolean)) {
        await manager.trustCertificate(fs.readFileSync(file));
    }
    return manager;
}

// node-opcua reads PEM files; the command line gives DER certificates, whose PEM form stands beside them.
const pem = (file) => file.replace(/\.der$/, ".pem");

module.exports = { NAMESPACE, report, quiet, options, store, pem };
