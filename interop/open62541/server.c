// The open62541 server: the fixture of interop/README.md, to be read by our client and by the other stacks.

#include <open62541/client_config_default.h>
#include <open62541/plugin/accesscontrol_default.h>
#include <open62541/plugin/log_stdout.h>
#include <open62541/plugin/certificategroup_default.h>
#include <open62541/plugin/historydata/history_data_backend_memory.h>
#include <open62541/plugin/historydata/history_data_gathering_default.h>
#include <open62541/plugin/historydata/history_database_default.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>
#include <poll.h>
#include <unistd.h>

#include "shared.h"

static UA_UInt32 count;
static UA_NodeId ticks;
static UA_HistoryDataGathering gathering;

static void tick(UA_Server *server, void *context) {
    (void)context;
    count++;
    UA_DataValue value;
    UA_DataValue_init(&value);
    UA_Variant_setScalar(&value.value, &count, &UA_TYPES[UA_TYPES_UINT32]);
    value.hasValue = true;
    value.hasSourceTimestamp = true;
    value.sourceTimestamp = UA_DateTime_now();
    UA_Server_writeDataValue(server, ticks, value);
}

static UA_StatusCode add(UA_Server *server, const UA_NodeId *session, void *session_context, const UA_NodeId *method,
                         void *method_context, const UA_NodeId *object, void *object_context, size_t inputs,
                         const UA_Variant *input, size_t outputs, UA_Variant *output) {
    (void)server, (void)session, (void)session_context, (void)method, (void)method_context, (void)object, (void)object_context;
    if(inputs != 2 || outputs != 1)
        return UA_STATUSCODE_BADARGUMENTSMISSING;
    UA_Double sum = *(UA_Double *)input[0].data + *(UA_Double *)input[1].data;
    return UA_Variant_setScalarCopy(output, &sum, &UA_TYPES[UA_TYPES_DOUBLE]);
}

// A folder of a thousand variables, for clients that browse page by page.
static void populate_many(UA_Server *server, UA_UInt16 index) {
    UA_ObjectAttributes folder = UA_ObjectAttributes_default;
    folder.displayName = UA_LOCALIZEDTEXT("", "Many");
    UA_NodeId many = UA_NODEID_STRING(index, "Line.Many");
    UA_Server_addObjectNode(server, many, UA_NODEID_STRING(index, "Line"), UA_NS0ID(HASCOMPONENT), UA_QUALIFIEDNAME(index, "Many"),
                            UA_NS0ID(FOLDERTYPE), folder, NULL, NULL);
    for(UA_UInt32 number = 0; number < 1000; number++) {
        char name[16];
        snprintf(name, sizeof name, "Value%04u", number);
        UA_VariableAttributes attributes = UA_VariableAttributes_default;
        attributes.displayName = UA_LOCALIZEDTEXT("", name);
        attributes.dataType = UA_TYPES[UA_TYPES_UINT32].typeId;
        UA_Variant_setScalar(&attributes.value, &number, &UA_TYPES[UA_TYPES_UINT32]);
        UA_Server_addVariableNode(server, UA_NODEID_NUMERIC(index, 10000 + number), many, UA_NS0ID(ORGANIZES),
                                  UA_QUALIFIEDNAME(index, name), UA_NS0ID(BASEDATAVARIABLETYPE), attributes, NULL, NULL);
    }
}

// The values of a variable are kept in memory as they are written.
static UA_StatusCode keep_history(UA_Server *server, const UA_NodeId *node) {
    UA_HistorizingNodeIdSettings settings;
    memset(&settings, 0, sizeof settings);
    settings.historizingBackend = UA_HistoryDataBackend_Memory(1, 1000);
    settings.maxHistoryDataResponseSize = 100;
    settings.historizingUpdateStrategy = UA_HISTORIZINGUPDATESTRATEGY_VALUESET;
    return gathering.registerNodeId(server, gathering.context, node, settings);
}

static UA_NodeId add_variable(UA_Server *server, UA_UInt16 index, char *id, char *name, void *value, size_t type, UA_Byte access) {
    UA_VariableAttributes attributes = UA_VariableAttributes_default;
    attributes.displayName = UA_LOCALIZEDTEXT("", name);
    attributes.accessLevel = access;
    attributes.historizing = (access & UA_ACCESSLEVELMASK_HISTORYREAD) != 0;
    attributes.minimumSamplingInterval = 10;
    attributes.dataType = UA_TYPES[type].typeId;
    UA_Variant_setScalar(&attributes.value, value, &UA_TYPES[type]);
    UA_NodeId node = UA_NODEID_STRING(index, id);
    UA_Server_addVariableNode(server, node, UA_NODEID_STRING(index, "Line"), UA_NS0ID(HASCOMPONENT), UA_QUALIFIEDNAME(index, name),
                              UA_NS0ID(BASEDATAVARIABLETYPE), attributes, NULL, NULL);
    return node;
}

static UA_StatusCode populate(UA_Server *server, bool history, bool many) {
    UA_UInt16 index = UA_Server_addNamespace(server, NAMESPACE);
    UA_ObjectAttributes line = UA_ObjectAttributes_default;
    line.displayName = UA_LOCALIZEDTEXT("", "Line");
    UA_Server_addObjectNode(server, UA_NODEID_STRING(index, "Line"), UA_NS0ID(OBJECTSFOLDER), UA_NS0ID(ORGANIZES),
                            UA_QUALIFIEDNAME(index, "Line"), UA_NS0ID(BASEOBJECTTYPE), line, NULL, NULL);
    UA_Double setpoint = 20.0;
    ticks = add_variable(server, index, "Line.Ticks", "Ticks", &count, UA_TYPES_UINT32, UA_ACCESSLEVELMASK_READ);
    UA_Byte access = UA_ACCESSLEVELMASK_READ | UA_ACCESSLEVELMASK_WRITE;
    if(history)
        access |= UA_ACCESSLEVELMASK_HISTORYREAD | UA_ACCESSLEVELMASK_HISTORYWRITE;
    UA_NodeId kept = add_variable(server, index, "Line.Setpoint", "Setpoint", &setpoint, UA_TYPES_DOUBLE, access);
    if(many)
        populate_many(server, index);

    UA_Argument numbers[3];
    char *names[3] = {"left", "right", "sum"};
    for(int i = 0; i < 3; i++) {
        UA_Argument_init(&numbers[i]);
        numbers[i].name = UA_STRING(names[i]);
        numbers[i].dataType = UA_TYPES[UA_TYPES_DOUBLE].typeId;
        numbers[i].valueRank = UA_VALUERANK_SCALAR;
    }
    UA_MethodAttributes method = UA_MethodAttributes_default;
    method.displayName = UA_LOCALIZEDTEXT("", "Add");
    method.executable = true;
    method.userExecutable = true;
    UA_Server_addMethodNode(server, UA_NODEID_STRING(index, "Line.Add"), UA_NODEID_STRING(index, "Line"), UA_NS0ID(HASCOMPONENT),
                            UA_QUALIFIEDNAME(index, "Add"), method, add, 2, numbers, 1, &numbers[2], NULL, NULL);
    UA_Server_addRepeatedCallback(server, tick, NULL, 20.0, NULL);
    return history ? keep_history(server, &kept) : UA_STATUSCODE_GOOD;
}

// Adds a policy of elliptic curves with a certificate of its own, in both modes, when its files are given.
static UA_StatusCode add_ecc(UA_ServerConfig *config, int argc, char **argv, const char *certificate_option, const char *key_option,
                             char *uri, UA_StatusCode (*add)(UA_ServerConfig *, const UA_ByteString *, const UA_ByteString *)) {
    if(!option(argc, argv, certificate_option))
        return UA_STATUSCODE_GOOD;
    UA_ByteString certificate = read_file(option(argc, argv, certificate_option)), pem = read_file(option(argc, argv, key_option));
    UA_ByteString key = UA_BYTESTRING_NULL;
    UA_StatusCode status = UA_CertificateUtils_decryptPrivateKey(pem, UA_BYTESTRING_NULL, &key);
    if(status == UA_STATUSCODE_GOOD)
        status = add(config, &certificate, &key);
    if(status == UA_STATUSCODE_GOOD)
        status = UA_ServerConfig_addEndpoint(config, UA_STRING(uri), UA_MESSAGESECURITYMODE_SIGN);
    if(status == UA_STATUSCODE_GOOD)
        status = UA_ServerConfig_addEndpoint(config, UA_STRING(uri), UA_MESSAGESECURITYMODE_SIGNANDENCRYPT);
    UA_ByteString_clear(&certificate);
    UA_ByteString_clear(&pem);
    UA_ByteString_clear(&key);
    return status;
}

// Connects to a client that listens, with a few connections: each carries one channel.
static UA_StatusCode call_client(UA_Server *server, const char *url, const char *port) {
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    if(!url)
        return status;
    char own[64];
    snprintf(own, sizeof own, "opc.tcp://127.0.0.1:%s", port);
    UA_String text = UA_STRING(own);
    UA_ApplicationDescription *self = &UA_Server_getConfig(server)->applicationDescription;
    UA_Array_delete(self->discoveryUrls, self->discoveryUrlsSize, &UA_TYPES[UA_TYPES_STRING]);
    self->discoveryUrlsSize = 1;
    status = UA_Array_copy(&text, 1, (void **)&self->discoveryUrls, &UA_TYPES[UA_TYPES_STRING]);
    for(int i = 0; i < 4 && status == UA_STATUSCODE_GOOD; i++)
        status = UA_Server_addReverseConnect(server, UA_STRING((char *)(uintptr_t)url), NULL, NULL, NULL);
    return status;
}

// Registers with a discovery server, over an encrypted channel.
static UA_StatusCode register_with(UA_Server *server, const char *url, int argc, char **argv) {
    if(!url)
        return UA_STATUSCODE_GOOD;
    UA_ClientConfig client;
    memset(&client, 0, sizeof client);
    client.logging = UA_Log_Stdout_new(UA_LOGLEVEL_FATAL);
    UA_ByteString certificate = read_file(option(argc, argv, "--cert")), key = read_file(option(argc, argv, "--key"));
    UA_ByteString trusted[MAX_TRUSTED];
    size_t count_trusted = read_files(option(argc, argv, "--trust"), trusted);
    UA_StatusCode status = UA_ClientConfig_setDefaultEncryption(&client, certificate, key, trusted, count_trusted, NULL, 0);
    client.securityMode = UA_MESSAGESECURITYMODE_SIGNANDENCRYPT;
    UA_String_clear(&client.clientDescription.applicationUri);
    UA_String_copy(&UA_Server_getConfig(server)->applicationDescription.applicationUri, &client.clientDescription.applicationUri);
    if(status == UA_STATUSCODE_GOOD)
        status = UA_Server_registerDiscovery(server, &client, UA_STRING((char *)(uintptr_t)url), UA_STRING_NULL);
    return status;
}

static UA_StatusCode configure(UA_ServerConfig *config, int argc, char **argv) {
    count = option(argc, argv, "--ticks") ? (UA_UInt32)atol(option(argc, argv, "--ticks")) : 0;
    UA_ByteString certificate = read_file(option(argc, argv, "--cert")), key = read_file(option(argc, argv, "--key"));
    UA_ByteString trusted[MAX_TRUSTED];
    size_t count_trusted = read_files(option(argc, argv, "--trust"), trusted);
    config->logging = UA_Log_Stdout_new(UA_LOGLEVEL_FATAL);
    UA_StatusCode status = UA_ServerConfig_setDefaultWithSecureSecurityPolicies(
        config, (UA_UInt16)atoi(option(argc, argv, "--port")), &certificate, &key, trusted, count_trusted, NULL, 0, NULL, 0);
    if(status != UA_STATUSCODE_GOOD)
        return status;

    // The secure defaults leave out None; add its policy and endpoint beside Basic256Sha256.
    status = UA_ServerConfig_addSecurityPolicyNone(config, &certificate);
    status |= UA_ServerConfig_addEndpoint(config, UA_STRING("http://opcfoundation.org/UA/SecurityPolicy#None"),
                                          UA_MESSAGESECURITYMODE_NONE);
    status |= add_ecc(config, argc, argv, "--cert-p256", "--key-p256", "http://opcfoundation.org/UA/SecurityPolicy#ECC_nistP256",
                      UA_ServerConfig_addSecurityPolicyEccNistP256);
    status |= add_ecc(config, argc, argv, "--cert-ed25519", "--key-ed25519",
                      "http://opcfoundation.org/UA/SecurityPolicy#ECC_curve25519", UA_ServerConfig_addSecurityPolicyEccCurve25519);
    char *name = strdup(option(argc, argv, "--cert"));
    char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name, uri[128];
    snprintf(uri, sizeof uri, "urn:trapkey:interop:%.*s", (int)strcspn(base, "."), base);
    UA_String_clear(&config->applicationDescription.applicationUri);
    config->applicationDescription.applicationUri = UA_String_fromChars(uri);
    for(size_t i = 0; i < config->endpointsSize; i++) {
        UA_String_clear(&config->endpoints[i].server.applicationUri);
        config->endpoints[i].server.applicationUri = UA_String_fromChars(uri);
    }
    free(name);

    char *password, *user = split(option(argc, argv, "--user"), ':', &password);
    UA_UsernamePasswordLogin login = {UA_STRING(user), UA_STRING(password)};
    UA_String policy = UA_STRING("http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256");
    config->accessControl.clear(&config->accessControl);
    config->reverseReconnectInterval = 200;
    if(option(argc, argv, "--sessions"))
        config->maxSessions = (UA_UInt16)atoi(option(argc, argv, "--sessions"));
    if(flag(argc, argv, "--history")) {
        gathering = UA_HistoryDataGathering_Default(1);
        config->historyDatabase = UA_HistoryDatabase_default(gathering);
        config->accessHistoryDataCapability = true;
        config->insertDataCapability = config->deleteRawCapability = true;
    }
    if(flag(argc, argv, "--discovery"))
        config->applicationDescription.applicationType = UA_APPLICATIONTYPE_DISCOVERYSERVER;
    return status | UA_AccessControl_default(config, true, &policy, 1, &login);
}

int main(int argc, char **argv) {
    UA_ServerConfig config;
    memset(&config, 0, sizeof config);
    UA_StatusCode status = configure(&config, argc, argv);
    UA_Server *server = status == UA_STATUSCODE_GOOD ? UA_Server_newWithConfig(&config) : NULL;
    if(server) {
        status = populate(server, flag(argc, argv, "--history"), flag(argc, argv, "--many"));
        if(status == UA_STATUSCODE_GOOD)
            status = UA_Server_run_startup(server);
        if(status == UA_STATUSCODE_GOOD)
            status = call_client(server, option(argc, argv, "--call"), option(argc, argv, "--port"));
        if(status == UA_STATUSCODE_GOOD)
            status = register_with(server, option(argc, argv, "--register"), argc, argv);
    }
    report("listening", server && status == UA_STATUSCODE_GOOD, "", status);
    if(!server || status != UA_STATUSCODE_GOOD)
        return 1;
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char ignored[64];
    for(;;) {
        if(poll(&input, 1, 0) > 0 && read(STDIN_FILENO, ignored, sizeof ignored) <= 0)
            break;
        UA_Server_run_iterate(server, true);
    }
    UA_Server_run_shutdown(server);
    UA_Server_delete(server);
    return 0;
}
