// The open62541 client: takes the steps of interop/README.md against any server and prints one JSON line for each.

#include <open62541/client.h>
#include <open62541/client_config_default.h>
#include <open62541/client_highlevel.h>
#include <open62541/client_subscriptions.h>
#include <open62541/plugin/securitypolicy_default.h>
#include <time.h>

#include "shared.h"

static int argument_count;
static char **arguments;
static UA_Client *client;
static UA_UInt16 namespace_index;
enum { EVENT_FIELDS = 6 };
static UA_UInt32 wanted = 60, seen, last;
static bool restarted, gone, gap;
static char detail[256];
static UA_UInt32 reports;

static const char *given(const char *name) { return option(argument_count, arguments, name); }

static UA_NodeId node(const char *name) { return UA_NODEID_STRING(namespace_index, (char *)(uintptr_t)name); }

static UA_StatusCode wrong(const char *what) {
    snprintf(detail, sizeof detail, "%s", what);
    return UA_STATUSCODE_BADUNEXPECTEDERROR;
}

static void set_policy(UA_ClientConfig *config) {
    const char *policy = given("--policy"), *mode = given("--mode");
    char uri[128];
    snprintf(uri, sizeof uri, "http://opcfoundation.org/UA/SecurityPolicy#%s", policy ? policy : "None");
    UA_String_clear(&config->securityPolicyUri);
    config->securityPolicyUri = UA_String_fromChars(uri);
    config->securityMode = UA_MESSAGESECURITYMODE_NONE;
    if(mode && strcmp(mode, "Sign") == 0)
        config->securityMode = UA_MESSAGESECURITYMODE_SIGN;
    if(mode && strcmp(mode, "SignAndEncrypt") == 0)
        config->securityMode = UA_MESSAGESECURITYMODE_SIGNANDENCRYPT;
}

static void set_issued_token(UA_ClientConfig *config, const char *path) {
    UA_IssuedIdentityToken *token = UA_IssuedIdentityToken_new();
    token->tokenData = read_file(path);
    while(token->tokenData.length > 0 && token->tokenData.data[token->tokenData.length - 1] <= ' ')
        token->tokenData.length--;
    UA_ExtensionObject_setValue(&config->userIdentityToken, token, &UA_TYPES[UA_TYPES_ISSUEDIDENTITYTOKEN]);
    UA_String_clear(&config->authSecurityPolicyUri);
    if(flag(argument_count, arguments, "--clear"))
        config->authSecurityPolicyUri = UA_String_fromChars("http://opcfoundation.org/UA/SecurityPolicy#None");
    else
        UA_String_copy(&config->securityPolicyUri, &config->authSecurityPolicyUri);
}

// The library's defaults leave out ECC_nistP256, so the policy that is asked for is added by hand where it is missing.
static UA_StatusCode append_policy(UA_ClientConfig *config, UA_SecurityPolicy **policies, size_t *size, const char *certificate,
                                   const char *key) {
    UA_SecurityPolicy *grown = (UA_SecurityPolicy *)realloc(*policies, (*size + 1) * sizeof *grown);
    if(!grown)
        return UA_STATUSCODE_BADOUTOFMEMORY;
    *policies = grown;
    UA_ByteString own = read_file(certificate), pem = read_file(key), der = UA_BYTESTRING_NULL;
    UA_StatusCode status = UA_CertificateUtils_decryptPrivateKey(pem, UA_BYTESTRING_NULL, &der);
    if(status == UA_STATUSCODE_GOOD && strcmp(given("--policy"), "ECC_nistP256") == 0)
        status = UA_SecurityPolicy_EccNistP256(&grown[*size], UA_APPLICATIONTYPE_CLIENT, own, der, config->logging);
    else if(status == UA_STATUSCODE_GOOD)
        status = UA_SecurityPolicy_EccCurve25519(&grown[*size], UA_APPLICATIONTYPE_CLIENT, own, der, config->logging);
    if(status == UA_STATUSCODE_GOOD)
        ++*size;
    UA_ByteString_clear(&own);
    UA_ByteString_clear(&pem);
    UA_ByteString_clear(&der);
    return status;
}

static UA_StatusCode add_ecc(UA_ClientConfig *config) {
    if(!given("--policy") || strncmp(given("--policy"), "ECC_", 4) != 0)
        return UA_STATUSCODE_GOOD;
    UA_StatusCode status = append_policy(config, &config->securityPolicies, &config->securityPoliciesSize, given("--cert"),
                                         given("--key"));
    char *key, *certificate = given("--x509") ? split(given("--x509"), ',', &key) : NULL;
    if(status == UA_STATUSCODE_GOOD)
        status = append_policy(config, &config->authSecurityPolicies, &config->authSecurityPoliciesSize,
                               certificate ? certificate : given("--cert"), certificate ? key : given("--key"));
    free(certificate);
    return status;
}

static UA_StatusCode set_identity(UA_ClientConfig *config) {
    char *right;
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    if(given("--user")) {
        char *name = split(given("--user"), ':', &right);
        status = UA_ClientConfig_setAuthenticationUsername(config, name, right);
        free(name);
    } else if(given("--x509")) {
        char *certificate = split(given("--x509"), ',', &right);
        UA_ByteString user = read_file(certificate), key = read_file(right);
        status = UA_ClientConfig_setAuthenticationCert(config, user, key);
        UA_ByteString_clear(&user);
        UA_ByteString_clear(&key);
        free(certificate);
    } else if(given("--jwt")) {
        set_issued_token(config, given("--jwt"));
    }
    return status;
}

// Waits for a server that calls, until there is a session.
static UA_StatusCode be_called(void) {
    UA_String host = UA_STRING("127.0.0.1");
    UA_StatusCode status = UA_Client_startListeningForReverseConnect(client, &host, 1, (UA_UInt16)atoi(given("--listen")));
    UA_SessionState session = UA_SESSIONSTATE_CLOSED;
    time_t end = time(NULL) + 60;
    while(status == UA_STATUSCODE_GOOD && session != UA_SESSIONSTATE_ACTIVATED && time(NULL) < end) {
        status = UA_Client_run_iterate(client, 50);
        UA_Client_getState(client, NULL, &session, NULL);
    }
    return status == UA_STATUSCODE_GOOD && session != UA_SESSIONSTATE_ACTIVATED ? UA_STATUSCODE_BADTIMEOUT : status;
}

// The library tells of a gap between messages in its log alone.
static void listen_for_gaps(void *context, UA_LogLevel level, UA_LogCategory category, const char *message, va_list values) {
    (void)context, (void)level, (void)category, (void)values;
    gap |= strstr(message, "Invalid subscription sequence number") != NULL;
}

static UA_Logger listening_log = {listen_for_gaps, NULL, NULL};

static UA_StatusCode connect_step(void) {
    UA_ClientConfig config;
    memset(&config, 0, sizeof config);
    config.logging = &listening_log;
    UA_StatusCode status;
    if(given("--cert")) {
        UA_ByteString certificate = read_file(given("--cert")), key = read_file(given("--key"));
        UA_ByteString trusted[MAX_TRUSTED];
        size_t count = read_files(given("--trust"), trusted);
        status = UA_ClientConfig_setDefaultEncryption(&config, certificate, key, trusted, count, NULL, 0);
        for(size_t i = 0; i < count; i++)
            UA_ByteString_clear(&trusted[i]);
        UA_ByteString_clear(&certificate);
        UA_ByteString_clear(&key);
    } else {
        status = UA_ClientConfig_setDefault(&config);
    }
    UA_String_clear(&config.clientDescription.applicationUri);
    config.clientDescription.applicationUri = UA_String_fromChars("urn:trapkey:interop:open62541");
    config.timeout = 60000;
    set_policy(&config);
    if(status == UA_STATUSCODE_GOOD)
        status = set_identity(&config);
    if(status == UA_STATUSCODE_GOOD)
        status = add_ecc(&config);
    if(status != UA_STATUSCODE_GOOD) {
        UA_ClientConfig_clear(&config);
        return status;
    }
    client = UA_Client_newWithConfig(&config);
    status = given("--listen") ? be_called() : UA_Client_connect(client, given("--url"));
    if(status != UA_STATUSCODE_GOOD)
        return status;
    UA_String uri = UA_STRING(NAMESPACE);
    status = UA_Client_NamespaceGetIndex(client, &uri, &namespace_index);
    snprintf(detail, sizeof detail, "namespace %u", namespace_index);
    return status;
}

static UA_StatusCode browse(UA_NodeId from, const char *const *names, size_t count) {
    UA_BrowseDescription what;
    UA_BrowseDescription_init(&what);
    what.nodeId = from;
    what.referenceTypeId = UA_NS0ID(HIERARCHICALREFERENCES);
    what.includeSubtypes = true;
    what.resultMask = UA_BROWSERESULTMASK_ALL;
    UA_BrowseRequest request;
    UA_BrowseRequest_init(&request);
    request.nodesToBrowse = &what;
    request.nodesToBrowseSize = 1;
    UA_BrowseResponse response = UA_Client_Service_browse(client, request);
    UA_StatusCode status = response.responseHeader.serviceResult;
    if(status == UA_STATUSCODE_GOOD)
        status = response.resultsSize == 1 ? response.results[0].statusCode : UA_STATUSCODE_BADUNEXPECTEDERROR;
    for(size_t name = 0; status == UA_STATUSCODE_GOOD && name < count; name++) {
        bool found = false;
        UA_String expected = UA_STRING((char *)(uintptr_t)names[name]);
        for(size_t i = 0; i < response.results[0].referencesSize; i++)
            found |= UA_String_equal(&response.results[0].references[i].browseName.name, &expected);
        if(!found)
            status = wrong("a node is missing from browse");
    }
    UA_BrowseResponse_clear(&response);
    return status;
}

static UA_StatusCode browse_step(void) {
    static const char *const top[] = {"Line"};
    static const char *const inside[] = {"Ticks", "Setpoint", "Add"};
    UA_StatusCode status = browse(UA_NS0ID(OBJECTSFOLDER), top, 1);
    if(status == UA_STATUSCODE_GOOD)
        status = browse(node("Line"), inside, 3);
    if(status == UA_STATUSCODE_GOOD)
        snprintf(detail, sizeof detail, "Add,Setpoint,Ticks");
    return status;
}

// Ticks off the names "Value0000" to "Value0999"; each must come once.
static UA_StatusCode tick_off(const UA_BrowseResult *page, bool *found) {
    for(size_t i = 0; i < page->referencesSize; i++) {
        char name[16];
        UA_String told = page->references[i].browseName.name;
        snprintf(name, sizeof name, "%.*s", (int)told.length, (char *)told.data);
        unsigned number = strlen(name) == 9 && strncmp(name, "Value", 5) == 0 ? (unsigned)atoi(name + 5) : 1000;
        if(number >= 1000 || found[number])
            return wrong("a name that is not expected, or twice");
        found[number] = true;
    }
    return UA_STATUSCODE_GOOD;
}

// The next page of a browse, in place of the one before.
static UA_StatusCode turn(UA_BrowseResult *page) {
    UA_BrowseNextRequest request;
    UA_BrowseNextRequest_init(&request);
    request.continuationPoints = &page->continuationPoint;
    request.continuationPointsSize = 1;
    UA_BrowseNextResponse response = UA_Client_Service_browseNext(client, request);
    UA_StatusCode status = response.responseHeader.serviceResult;
    if(status == UA_STATUSCODE_GOOD && response.resultsSize == 1) {
        UA_BrowseResult_clear(page);
        *page = response.results[0];
        UA_BrowseResult_init(&response.results[0]);
        status = page->statusCode;
    }
    UA_BrowseNextResponse_clear(&response);
    return status;
}

// The thousand variables, a hundred at a time.
static UA_StatusCode many_step(void) {
    UA_BrowseDescription what;
    UA_BrowseDescription_init(&what);
    what.nodeId = node("Line.Many");
    what.referenceTypeId = UA_NS0ID(HIERARCHICALREFERENCES);
    what.includeSubtypes = true;
    what.resultMask = UA_BROWSERESULTMASK_ALL;
    UA_BrowseRequest request;
    UA_BrowseRequest_init(&request);
    request.requestedMaxReferencesPerNode = 100;
    request.nodesToBrowse = &what;
    request.nodesToBrowseSize = 1;
    UA_BrowseResponse response = UA_Client_Service_browse(client, request);
    UA_StatusCode status = response.responseHeader.serviceResult;
    if(status == UA_STATUSCODE_GOOD)
        status = response.resultsSize == 1 ? response.results[0].statusCode : UA_STATUSCODE_BADUNEXPECTEDERROR;
    bool found[1000] = {false};
    unsigned requests = 1, all = 0;
    for(; status == UA_STATUSCODE_GOOD; requests++) {
        status = tick_off(&response.results[0], found);
        if(status != UA_STATUSCODE_GOOD || response.results[0].continuationPoint.length == 0)
            break;
        status = turn(&response.results[0]);
    }
    for(size_t i = 0; i < 1000; i++)
        all += found[i];
    if(status == UA_STATUSCODE_GOOD && all != 1000)
        status = wrong("not all of the thousand");
    else if(status == UA_STATUSCODE_GOOD)
        snprintf(detail, sizeof detail, "1000 in %u requests", requests);
    UA_BrowseResponse_clear(&response);
    return status;
}

static UA_StatusCode set(UA_Double setpoint) {
    UA_Variant value;
    UA_Variant_setScalar(&value, &setpoint, &UA_TYPES[UA_TYPES_DOUBLE]);
    return UA_Client_writeValueAttribute(client, node("Line.Setpoint"), &value);
}

// Keeps the values of one answer as text.
static UA_Boolean remember(UA_Client *of, const UA_NodeId *id, UA_Boolean more, const UA_ExtensionObject *data, void *context) {
    (void)of, (void)id, (void)more;
    char *text = (char *)context;
    if(data->encoding != UA_EXTENSIONOBJECT_DECODED || data->content.decoded.type != &UA_TYPES[UA_TYPES_HISTORYDATA])
        return false;
    const UA_HistoryData *values = (const UA_HistoryData *)data->content.decoded.data;
    for(size_t i = 0; i < values->dataValuesSize && i < 3; i++)
        if(UA_Variant_hasScalarType(&values->dataValues[i].value, &UA_TYPES[UA_TYPES_DOUBLE]))
            sprintf(text + strlen(text), "%.2f ", *(UA_Double *)values->dataValues[i].value.data);
    return false;
}

// What Setpoint was made before, the newest first.
static UA_StatusCode past_step(void) {
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    for(UA_Double value = 1.25; value < 4 && status == UA_STATUSCODE_GOOD; value += 1)
        status = set(value);
    UA_NodeId setpoint = node("Line.Setpoint");
    for(int round = 0; round < 300 && status == UA_STATUSCODE_GOOD; round++) {
        UA_DateTime now = UA_DateTime_now();
        char values[128] = "";
        status = UA_Client_HistoryRead_raw(client, &setpoint, remember, now + 3600 * UA_DATETIME_SEC, now - 3600 * UA_DATETIME_SEC,
                                           UA_STRING_NULL, false, 3, UA_TIMESTAMPSTORETURN_SOURCE, values);
        snprintf(detail, sizeof detail, "%s", values);
        if(strcmp(values, "3.25 2.25 1.25 ") == 0)
            return status;
        UA_Client_run_iterate(client, 100);
    }
    return status == UA_STATUSCODE_GOOD ? UA_STATUSCODE_BADUNEXPECTEDERROR : status;
}

static UA_StatusCode read_step(void) {
    UA_ReadValueId what;
    UA_ReadValueId_init(&what);
    what.nodeId = node("Line.Ticks");
    what.attributeId = UA_ATTRIBUTEID_VALUE;
    UA_ReadRequest request;
    UA_ReadRequest_init(&request);
    request.nodesToRead = &what;
    request.nodesToReadSize = 1;
    request.timestampsToReturn = UA_TIMESTAMPSTORETURN_BOTH;
    UA_ReadResponse response = UA_Client_Service_read(client, request);
    UA_StatusCode status = response.responseHeader.serviceResult;
    if(status == UA_STATUSCODE_GOOD && response.resultsSize != 1)
        status = wrong("not one result");
    if(status == UA_STATUSCODE_GOOD) {
        UA_DataValue *value = &response.results[0];
        if(value->hasStatus && value->status != UA_STATUSCODE_GOOD)
            status = value->status;
        else if(!value->hasSourceTimestamp)
            status = wrong("no source timestamp");
        else if(!UA_Variant_hasScalarType(&value->value, &UA_TYPES[UA_TYPES_UINT32]))
            status = wrong("Ticks is not a UInt32");
        else
            snprintf(detail, sizeof detail, "%u", *(UA_UInt32 *)value->value.data);
    }
    UA_ReadResponse_clear(&response);
    return status;
}

static UA_StatusCode write_step(void) {
    UA_Double setpoint = 43.5;
    UA_StatusCode status = set(setpoint);
    if(status != UA_STATUSCODE_GOOD)
        return status;
    UA_Variant back;
    UA_Variant_init(&back);
    status = UA_Client_readValueAttribute(client, node("Line.Setpoint"), &back);
    if(status == UA_STATUSCODE_GOOD &&
       !(UA_Variant_hasScalarType(&back, &UA_TYPES[UA_TYPES_DOUBLE]) && *(UA_Double *)back.data == setpoint))
        status = wrong("did not read back what was written");
    else
        snprintf(detail, sizeof detail, "43.5");
    UA_Variant_clear(&back);
    return status;
}

static UA_StatusCode call_step(void) {
    UA_Double numbers[2] = {1.5, 2.25};
    UA_Variant inputs[2];
    UA_Variant_setScalar(&inputs[0], &numbers[0], &UA_TYPES[UA_TYPES_DOUBLE]);
    UA_Variant_setScalar(&inputs[1], &numbers[1], &UA_TYPES[UA_TYPES_DOUBLE]);
    size_t count = 0;
    UA_Variant *outputs = NULL;
    UA_StatusCode status = UA_Client_call(client, node("Line"), node("Line.Add"), 2, inputs, &count, &outputs);
    if(status == UA_STATUSCODE_GOOD &&
       !(count == 1 && UA_Variant_hasScalarType(outputs, &UA_TYPES[UA_TYPES_DOUBLE]) && *(UA_Double *)outputs->data == 3.75))
        status = wrong("1.5 + 2.25 is not 3.75");
    else
        snprintf(detail, sizeof detail, "3.75");
    UA_Array_delete(outputs, count, &UA_TYPES[UA_TYPES_VARIANT]);
    return status;
}

static void changed(UA_Client *of, UA_UInt32 subscription, void *context, UA_UInt32 item, void *item_context, UA_DataValue *value) {
    (void)of, (void)subscription, (void)context, (void)item, (void)item_context;
    if(value->hasStatus && (value->status & 0xC0000000))
        return;
    seen++;
    if(!UA_Variant_hasScalarType(&value->value, &UA_TYPES[UA_TYPES_UINT32]))
        return;
    UA_UInt32 ticks = *(UA_UInt32 *)value->value.data;
    restarted |= ticks < last;
    last = ticks;
}

// A subscription goes with its session; whoever wants to go on makes another.
static void deleted(UA_Client *of, UA_UInt32 subscription, void *context) {
    (void)of, (void)subscription, (void)context;
    gone = true;
}

static UA_StatusCode create_subscription(UA_UInt32 *subscription) {
    UA_CreateSubscriptionRequest request = UA_CreateSubscriptionRequest_default();
    request.requestedPublishingInterval = 50;
    UA_CreateSubscriptionResponse created = UA_Client_Subscriptions_create(client, request, NULL, NULL, deleted);
    UA_StatusCode status = created.responseHeader.serviceResult;
    *subscription = created.subscriptionId;
    UA_CreateSubscriptionResponse_clear(&created);
    return status;
}

static UA_StatusCode watch_ticks_as(UA_UInt32 *subscription, UA_UInt32 *monitored) {
    UA_StatusCode status = create_subscription(subscription);
    if(status != UA_STATUSCODE_GOOD)
        return status;
    UA_MonitoredItemCreateRequest item = UA_MonitoredItemCreateRequest_default(node("Line.Ticks"));
    item.requestedParameters.samplingInterval = 20;
    item.requestedParameters.queueSize = 10;
    UA_MonitoredItemCreateResult result =
        UA_Client_MonitoredItems_createDataChange(client, *subscription, UA_TIMESTAMPSTORETURN_BOTH, item, NULL, changed, NULL);
    status = result.statusCode;
    *monitored = result.monitoredItemId;
    UA_MonitoredItemCreateResult_clear(&result);
    return status;
}

static UA_StatusCode watch_ticks(UA_UInt32 *subscription) {
    UA_UInt32 monitored;
    return watch_ticks_as(subscription, &monitored);
}

// Waits until `*counted` has come to `enough`.
static UA_StatusCode wait_for(const UA_UInt32 *counted, UA_UInt32 enough) {
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    time_t end = time(NULL) + 300;
    while(status == UA_STATUSCODE_GOOD && *counted < enough && time(NULL) < end)
        status = UA_Client_run_iterate(client, 50);
    return status == UA_STATUSCODE_GOOD && *counted < enough ? UA_STATUSCODE_BADTIMEOUT : status;
}

static UA_StatusCode subscribe_step(void) {
    UA_UInt32 subscription = 0;
    seen = 0;
    UA_StatusCode status = watch_ticks(&subscription);
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&seen, wanted);
    snprintf(detail, sizeof detail, "%u changes", seen);
    UA_Client_Subscriptions_deleteSingle(client, subscription);
    return status;
}

static void triggered(UA_Client *of, UA_UInt32 subscription, void *context, UA_UInt32 item, void *item_context, UA_DataValue *value) {
    (void)of, (void)subscription, (void)item, (void)item_context, (void)context, (void)value;
    reports++;
}

// Setpoint is only sampled, and reported when Ticks changes.
static UA_StatusCode trigger_step(void) {
    UA_UInt32 subscription = 0, ticks = 0;
    reports = 0;
    UA_StatusCode status = watch_ticks_as(&subscription, &ticks);
    if(status != UA_STATUSCODE_GOOD)
        return status;
    UA_MonitoredItemCreateRequest item = UA_MonitoredItemCreateRequest_default(node("Line.Setpoint"));
    item.monitoringMode = UA_MONITORINGMODE_SAMPLING;
    item.requestedParameters.samplingInterval = 20;
    UA_MonitoredItemCreateResult linked =
        UA_Client_MonitoredItems_createDataChange(client, subscription, UA_TIMESTAMPSTORETURN_BOTH, item, NULL, triggered, NULL);
    status = linked.statusCode;
    UA_SetTriggeringRequest request;
    UA_SetTriggeringRequest_init(&request);
    request.subscriptionId = subscription;
    request.triggeringItemId = ticks;
    request.linksToAdd = &linked.monitoredItemId;
    request.linksToAddSize = 1;
    if(status == UA_STATUSCODE_GOOD) {
        UA_SetTriggeringResponse response = UA_Client_MonitoredItems_setTriggering(client, request);
        status = response.responseHeader.serviceResult;
        if(status == UA_STATUSCODE_GOOD)
            status = response.addResultsSize == 1 ? response.addResults[0] : UA_STATUSCODE_BADUNEXPECTEDERROR;
        UA_SetTriggeringResponse_clear(&response);
    }
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&reports, 1);
    UA_MonitoredItemCreateResult_clear(&linked);
    UA_Client_Subscriptions_deleteSingle(client, subscription);
    return status;
}

static char told[256];
static UA_UInt32 heard;

static bool is_text(const UA_Variant *field, const char *text) {
    UA_String expected = UA_STRING((char *)(uintptr_t)text);
    return UA_Variant_hasScalarType(field, &UA_TYPES[UA_TYPES_STRING]) && UA_String_equal((UA_String *)field->data, &expected);
}

// Takes the event of the own write; others may write as well, but other values.
static void event_came(UA_Client *of, UA_UInt32 subscription, void *context, UA_UInt32 item, void *item_context,
                       const UA_KeyValueMap map) {
    (void)of, (void)subscription, (void)context, (void)item, (void)item_context;
    const UA_Variant *f[EVENT_FIELDS];
    if(map.mapSize != EVENT_FIELDS)
        return;
    for(size_t i = 0; i < EVENT_FIELDS; i++)
        f[i] = &map.map[i].value;
    if(!UA_Variant_hasScalarType(f[5], &UA_TYPES[UA_TYPES_DOUBLE]) || *(UA_Double *)f[5]->data != 43.25)
        return;
    UA_NodeId update = UA_NS0ID(AUDITWRITEUPDATEEVENTTYPE);
    char *rest, *user = given("--user") ? split(given("--user"), ':', &rest) : NULL;
    bool right = UA_Variant_hasScalarType(f[0], &UA_TYPES[UA_TYPES_NODEID]) && UA_NodeId_equal((UA_NodeId *)f[0]->data, &update) &&
                 is_text(f[1], "Attribute/Write") && UA_Variant_hasScalarType(f[2], &UA_TYPES[UA_TYPES_LOCALIZEDTEXT]) &&
                 UA_Variant_hasScalarType(f[3], &UA_TYPES[UA_TYPES_BOOLEAN]) && *(UA_Boolean *)f[3]->data &&
                 (!user || is_text(f[4], user));
    free(user);
    if(right) {
        UA_String message = ((UA_LocalizedText *)f[2]->data)->text;
        snprintf(told, sizeof told, "%.*s", (int)message.length, (char *)message.data);
    }
    heard++;
}

static UA_StatusCode listen_for_writes(UA_UInt32 subscription) {
    static const char *const names[EVENT_FIELDS] = {"EventType", "SourceName", "Message", "Status", "ClientUserId", "NewValue"};
    UA_SimpleAttributeOperand fields[EVENT_FIELDS];
    UA_QualifiedName paths[EVENT_FIELDS];
    UA_NodeId update = UA_NS0ID(AUDITWRITEUPDATEEVENTTYPE);
    for(size_t i = 0; i < EVENT_FIELDS; i++) {
        UA_SimpleAttributeOperand_init(&fields[i]);
        paths[i] = UA_QUALIFIEDNAME(0, (char *)(uintptr_t)names[i]);
        fields[i].typeDefinitionId = update;
        fields[i].browsePath = &paths[i];
        fields[i].browsePathSize = 1;
        fields[i].attributeId = UA_ATTRIBUTEID_VALUE;
    }
    UA_LiteralOperand type;
    UA_LiteralOperand_init(&type);
    UA_Variant_setScalar(&type.value, &update, &UA_TYPES[UA_TYPES_NODEID]);
    UA_ExtensionObject operand;
    UA_ExtensionObject_setValueNoDelete(&operand, &type, &UA_TYPES[UA_TYPES_LITERALOPERAND]);
    UA_ContentFilterElement of_type = {UA_FILTEROPERATOR_OFTYPE, 1, &operand};
    UA_EventFilter filter;
    UA_EventFilter_init(&filter);
    filter.selectClauses = fields;
    filter.selectClausesSize = EVENT_FIELDS;
    filter.whereClause.elements = &of_type;
    filter.whereClause.elementsSize = 1;
    UA_MonitoredItemCreateRequest item;
    UA_MonitoredItemCreateRequest_init(&item);
    item.itemToMonitor.nodeId = UA_NS0ID(SERVER);
    item.itemToMonitor.attributeId = UA_ATTRIBUTEID_EVENTNOTIFIER;
    item.monitoringMode = UA_MONITORINGMODE_REPORTING;
    item.requestedParameters.queueSize = 100;
    UA_ExtensionObject_setValueNoDelete(&item.requestedParameters.filter, &filter, &UA_TYPES[UA_TYPES_EVENTFILTER]);
    UA_MonitoredItemCreateResult result =
        UA_Client_MonitoredItems_createEvent(client, subscription, UA_TIMESTAMPSTORETURN_BOTH, item, NULL, event_came, NULL);
    UA_StatusCode status = result.statusCode;
    UA_MonitoredItemCreateResult_clear(&result);
    return status;
}

static UA_StatusCode events_step(void) {
    UA_UInt32 subscription = 0;
    heard = 0;
    UA_StatusCode status = create_subscription(&subscription);
    if(status == UA_STATUSCODE_GOOD)
        status = listen_for_writes(subscription);
    if(status == UA_STATUSCODE_GOOD)
        status = set(43.25);
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&heard, 1);
    if(status == UA_STATUSCODE_GOOD && !told[0])
        status = wrong("the event does not tell of the write");
    else if(status == UA_STATUSCODE_GOOD)
        snprintf(detail, sizeof detail, "%s", told);
    UA_Client_Subscriptions_deleteSingle(client, subscription);
    return status;
}

// A subscription that `recover` goes on with, after somebody has cut the connection.
static UA_StatusCode watch_step(void) {
    UA_UInt32 subscription = 0;
    seen = 0;
    UA_StatusCode status = watch_ticks(&subscription);
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&seen, 10);
    snprintf(detail, sizeof detail, "%u changes", seen);
    return status;
}

static UA_Double written[64], heard_values[64];
static UA_UInt32 writes, hears;

static void setpoint_changed(UA_Client *of, UA_UInt32 subscription, void *context, UA_UInt32 item, void *item_context,
                             UA_DataValue *value) {
    (void)of, (void)subscription, (void)context, (void)item, (void)item_context;
    if(UA_Variant_hasScalarType(&value->value, &UA_TYPES[UA_TYPES_DOUBLE]) && hears < 64)
        heard_values[hears++] = *(UA_Double *)value->value.data;
}

static UA_StatusCode write_next(void) {
    written[writes] = 500 + writes;
    writes++;
    return set(written[writes - 1]);
}

// All that was written has come, and once.
static UA_StatusCode heard_all(void) {
    UA_StatusCode status = wait_for(&hears, writes);
    if(status == UA_STATUSCODE_GOOD && (hears != writes || memcmp(written, heard_values, writes * sizeof *written) != 0))
        status = wrong("not what was written");
    return status == UA_STATUSCODE_GOOD && gap ? wrong("there is a gap between the messages") : status;
}

// Signs in anew with this token, and hears of Ticks.
static UA_StatusCode present(const char *path) {
    UA_ClientConfig *config = UA_Client_getConfig(client);
    UA_ExtensionObject_clear(&config->userIdentityToken);
    set_issued_token(config, path);
    UA_StatusCode status = UA_Client_activateCurrentSession(client);
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&seen, seen + 10);
    return status == UA_STATUSCODE_GOOD ? heard_all() : status;
}

// Presents fresh tokens while changes come.
static UA_StatusCode renew_step(void) {
    UA_UInt32 subscription = 0;
    UA_StatusCode status = write_next();
    if(status == UA_STATUSCODE_GOOD)
        status = watch_ticks(&subscription);
    if(status != UA_STATUSCODE_GOOD)
        return status;
    UA_MonitoredItemCreateRequest item = UA_MonitoredItemCreateRequest_default(node("Line.Setpoint"));
    item.requestedParameters.samplingInterval = 20;
    item.requestedParameters.queueSize = 10;
    UA_MonitoredItemCreateResult result =
        UA_Client_MonitoredItems_createDataChange(client, subscription, UA_TIMESTAMPSTORETURN_BOTH, item, NULL, setpoint_changed, NULL);
    status = result.statusCode;
    UA_MonitoredItemCreateResult_clear(&result);
    char *next, *path = strdup(given("--renew") ? given("--renew") : ""), *list = path;
    for(; status == UA_STATUSCODE_GOOD && *path; path = next) {
        next = path + strcspn(path, ",");
        if(*next)
            *next++ = 0;
        for(int change = 0; change < 5 && status == UA_STATUSCODE_GOOD; change++) {
            status = heard_all();
            if(status == UA_STATUSCODE_GOOD)
                status = write_next();
        }
        if(status == UA_STATUSCODE_GOOD)
            status = present(path);
    }
    free(list);
    if(status == UA_STATUSCODE_GOOD)
        snprintf(detail, sizeof detail, "%u changes", hears);
    UA_Client_Subscriptions_deleteSingle(client, subscription);
    return status;
}

// The changes go on when Ticks began anew, on the connection that there was.
static UA_StatusCode resume_step(void) {
    UA_SecureChannelState channel = UA_SECURECHANNELSTATE_OPEN;
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    time_t end = time(NULL) + 300;
    while(status == UA_STATUSCODE_GOOD && !restarted && time(NULL) < end)
        status = UA_Client_run_iterate(client, 50);
    if(!restarted)
        return wrong("Ticks do not begin anew in 300 s");
    seen = 0;
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&seen, wanted);
    UA_Client_getState(client, &channel, NULL, NULL);
    if(status == UA_STATUSCODE_GOOD && (gone || channel != UA_SECURECHANNELSTATE_OPEN))
        return wrong("the connection was lost");
    snprintf(detail, sizeof detail, "%u changes", wanted);
    return status;
}

// The library makes a new session where the old one is gone, but no subscription for it: that is up to whoever uses it.
static UA_StatusCode subscribe_anew(void) {
    UA_SessionState session = UA_SESSIONSTATE_CLOSED;
    time_t end = time(NULL) + 300;
    UA_UInt32 subscription;
    while(session != UA_SESSIONSTATE_ACTIVATED && time(NULL) < end) {
        if(UA_Client_run_iterate(client, 50) != UA_STATUSCODE_GOOD)
            UA_Client_connectAsync(client, given("--url"));
        UA_Client_getState(client, NULL, &session, NULL);
    }
    if(!gone)
        return UA_STATUSCODE_GOOD;
    gone = false;
    return watch_ticks(&subscription);
}

static UA_StatusCode recover_step(void) {
    UA_SecureChannelState channel = UA_SECURECHANNELSTATE_OPEN;
    UA_StatusCode status = UA_STATUSCODE_GOOD;
    time_t end = time(NULL) + 300;
    while(channel == UA_SECURECHANNELSTATE_OPEN && time(NULL) < end) {
        status = UA_Client_run_iterate(client, 10);
        UA_Client_getState(client, &channel, NULL, NULL);
    }
    if(channel == UA_SECURECHANNELSTATE_OPEN)
        return wrong("the connection is not lost in 300 s");
    status = subscribe_anew();
    seen = 0;
    if(status == UA_STATUSCODE_GOOD)
        status = wait_for(&seen, wanted);
    UA_UInt32 changes = seen;
    if(status == UA_STATUSCODE_GOOD)
        snprintf(detail, sizeof detail, "%u changes", changes >= wanted ? wanted : changes);
    return status;
}

static UA_StatusCode reconnect_step(void) {
    UA_Client_disconnect(client);
    UA_Client_delete(client);
    client = NULL;
    UA_StatusCode status = connect_step();
    return status == UA_STATUSCODE_GOOD ? read_step() : status;
}

static const struct {
    const char *name;
    UA_StatusCode (*run)(void);
} steps[] = {{"connect", connect_step}, {"browse", browse_step},   {"many", many_step},       {"read", read_step},
             {"write", write_step},     {"past", past_step},       {"call", call_step},       {"subscribe", subscribe_step},
             {"trigger", trigger_step}, {"events", events_step},   {"reconnect", reconnect_step}, {"watch", watch_step},
             {"resume", resume_step},   {"recover", recover_step}, {"renew", renew_step}};

// What is done when --steps is not given.
static const char usual[] = "connect,browse,read,write,call,subscribe,reconnect";

// The step that a list with commas begins with.
static size_t first_of(const char *list) {
    size_t length = strcspn(list, ","), known = sizeof steps / sizeof *steps, i = 0;
    while(i < known && (strlen(steps[i].name) != length || strncmp(list, steps[i].name, length) != 0))
        i++;
    return i;
}

int main(int argc, char **argv) {
    argument_count = argc;
    arguments = argv;
    if(given("--changes"))
        wanted = (UA_UInt32)atoi(given("--changes"));
    bool well = true;
    for(const char *at = given("--steps") ? given("--steps") : usual; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t i = first_of(at);
        if(i == sizeof steps / sizeof *steps) {
            fprintf(stderr, "there is no step `%s`\n", at);
            return 2;
        }
        detail[0] = 0;
        UA_StatusCode status = steps[i].run();
        if(status != UA_STATUSCODE_GOOD && !detail[0])
            snprintf(detail, sizeof detail, "%s", UA_StatusCode_name(status));
        well &= report(steps[i].name, status == UA_STATUSCODE_GOOD, detail, status);
        if(status != UA_STATUSCODE_GOOD && (strstr(steps[i].name, "connect") || strcmp(steps[i].name, "recover") == 0))
            break;
    }
    if(client) {
        UA_Client_disconnect(client);
        UA_Client_delete(client);
    }
    return well ? 0 : 1;
}
