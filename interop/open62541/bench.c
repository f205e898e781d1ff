// The open62541 server that our figures are held against: as many variables as `--nodes` says, 1,000 a folder, the same ids, names of
// the same lengths and values of the same type as those of `bench serve`, behind None and Basic256Sha256, for a user with a password.
//
//   open62541-bench --port PORT --nodes COUNT --cert CERT.der --key KEY.pem --trust CLIENT.der --user NAME:PASSWORD
//
// It prints {"step": "listening", ...} and ends when its standard input closes.

#include <open62541/plugin/accesscontrol_default.h>
#include <open62541/plugin/log_stdout.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>
#include <poll.h>
#include <unistd.h>

#include "shared.h"

#define PER_FOLDER 1000
#define BENCH_NAMESPACE "urn:trapkey:bench"

static UA_UInt64 state = 0x9e3779b97f4a7c15;

static UA_UInt64 draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Unique, 12 to 24 characters: eight hold the number, the rest is random.
static void name_of(UA_UInt32 number, char *out) {
    size_t length = 12 + (size_t)(draw() % 13), at = (size_t)sprintf(out, "%08x", number);
    while(at < length)
        out[at++] = (char)('a' + draw() % 26);
    out[at] = 0;
}

static UA_StatusCode populate(UA_Server *server, UA_UInt32 count) {
    UA_UInt16 index = UA_Server_addNamespace(server, BENCH_NAMESPACE);
    UA_NodeId folder = UA_NODEID_NULL;
    char name[32];
    UA_UInt32 number = 0;
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    for(UA_UInt32 nth = 0; nth < count && status == UA_STATUSCODE_GOOD; nth++) {
        if(nth % PER_FOLDER == 0) {
            UA_ObjectAttributes attributes = UA_ObjectAttributes_default;
            name_of(nth, name);
            attributes.displayName = UA_LOCALIZEDTEXT("", name);
            folder = UA_NODEID_NUMERIC(index, ++number);
            status = UA_Server_addObjectNode(server, folder, UA_NS0ID(OBJECTSFOLDER), UA_NS0ID(ORGANIZES), UA_QUALIFIEDNAME(index, name),
                                             UA_NS0ID(FOLDERTYPE), attributes, NULL, NULL);
        }
        UA_VariableAttributes attributes = UA_VariableAttributes_default;
        UA_Double value = nth;
        name_of(nth, name);
        attributes.displayName = UA_LOCALIZEDTEXT("", name);
        attributes.accessLevel = UA_ACCESSLEVELMASK_READ;
        attributes.dataType = UA_TYPES[UA_TYPES_DOUBLE].typeId;
        attributes.valueRank = UA_VALUERANK_SCALAR;
        UA_Variant_setScalar(&attributes.value, &value, &UA_TYPES[UA_TYPES_DOUBLE]);
        status |= UA_Server_addVariableNode(server, UA_NODEID_NUMERIC(index, ++number), folder, UA_NS0ID(HASCOMPONENT),
                                            UA_QUALIFIEDNAME(index, name), UA_NS0ID(BASEDATAVARIABLETYPE), attributes, NULL, NULL);
    }
    return status;
}

static UA_StatusCode configure(UA_ServerConfig *config, int argc, char **argv) {
    UA_ByteString certificate = read_file(option(argc, argv, "--cert")), key = read_file(option(argc, argv, "--key"));
    UA_ByteString trusted[MAX_TRUSTED];
    size_t count_trusted = read_files(option(argc, argv, "--trust"), trusted);
    config->logging = UA_Log_Stdout_new(UA_LOGLEVEL_FATAL);
    UA_StatusCode status = UA_ServerConfig_setDefaultWithSecureSecurityPolicies(
        config, (UA_UInt16)atoi(option(argc, argv, "--port")), &certificate, &key, trusted, count_trusted, NULL, 0, NULL, 0);
    if(status != UA_STATUSCODE_GOOD)
        return status;
    status = UA_ServerConfig_addSecurityPolicyNone(config, &certificate);
    status |= UA_ServerConfig_addEndpoint(config, UA_STRING("http://opcfoundation.org/UA/SecurityPolicy#None"),
                                          UA_MESSAGESECURITYMODE_NONE);
    UA_String uri = UA_STRING("urn:trapkey:bench:server");
    UA_String_clear(&config->applicationDescription.applicationUri);
    UA_String_copy(&uri, &config->applicationDescription.applicationUri);
    for(size_t i = 0; i < config->endpointsSize; i++) {
        UA_String_clear(&config->endpoints[i].server.applicationUri);
        UA_String_copy(&uri, &config->endpoints[i].server.applicationUri);
    }
    char *password, *user = split(option(argc, argv, "--user"), ':', &password);
    UA_UsernamePasswordLogin login = {UA_STRING(user), UA_STRING(password)};
    UA_String policy = UA_STRING("http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256");
    config->accessControl.clear(&config->accessControl);
    return status | UA_AccessControl_default(config, false, &policy, 1, &login);
}

static bool running = true;

// Now and then, so that the figures do not pay for it.
static void look_at_input(UA_Server *server, void *context) {
    (void)server, (void)context;
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char ignored[64];
    if(poll(&input, 1, 0) > 0 && read(STDIN_FILENO, ignored, sizeof ignored) <= 0)
        running = false;
}

int main(int argc, char **argv) {
    UA_ServerConfig config;
    memset(&config, 0, sizeof config);
    UA_StatusCode status = configure(&config, argc, argv);
    UA_Server *server = status == UA_STATUSCODE_GOOD ? UA_Server_newWithConfig(&config) : NULL;
    if(server) {
        const char *nodes = option(argc, argv, "--nodes");
        status = populate(server, nodes ? (UA_UInt32)strtoul(nodes, NULL, 10) : 0);
        status |= UA_Server_run_startup(server);
    }
    report("listening", server && status == UA_STATUSCODE_GOOD, UA_OPEN62541_VERSION, status);
    if(!server || status != UA_STATUSCODE_GOOD)
        return 1;
    UA_Server_addRepeatedCallback(server, look_at_input, NULL, 200.0, NULL);
    while(running)
        UA_Server_run_iterate(server, true);
    // Millions of nodes are left to the operating system.
    UA_Server_run_shutdown(server);
    return 0;
}
