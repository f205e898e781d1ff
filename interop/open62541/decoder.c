// Decodes requests with open62541 and writes them again: `decoder` of interop/README.md.
#include <open62541/types.h>
#include <open62541/types_generated.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (1u << 20)

static const UA_DataType *request_type(UA_UInt32 encoding) {
    for(size_t i = 0; i < UA_TYPES_COUNT; i++) {
        const UA_NodeId *id = &UA_TYPES[i].binaryEncodingId;
        if(id->namespaceIndex == 0 && id->identifierType == UA_NODEIDTYPE_NUMERIC && id->identifier.numeric == encoding)
            return &UA_TYPES[i];
    }
    return NULL;
}

// Reads a type id of two, four or seven bytes in namespace 0; returns how many there are, 0 for every other one.
static size_t type_id(const UA_ByteString *body, UA_UInt32 *id) {
    const UA_Byte *at = body->data;
    if(body->length >= 2 && at[0] == 0) {
        *id = at[1];
        return 2;
    }
    if(body->length >= 4 && at[0] == 1 && at[1] == 0) {
        *id = (UA_UInt32)at[2] | (UA_UInt32)at[3] << 8;
        return 4;
    }
    if(body->length >= 7 && at[0] == 2 && at[1] == 0 && at[2] == 0) {
        *id = (UA_UInt32)at[3] | (UA_UInt32)at[4] << 8 | (UA_UInt32)at[5] << 16 | (UA_UInt32)at[6] << 24;
        return 7;
    }
    return 0;
}

// The request in open62541's own words; false where it cannot be read.
static bool decoded(const UA_ByteString *body, UA_ByteString *again, size_t *head) {
    UA_UInt32 id;
    *head = type_id(body, &id);
    const UA_DataType *type = *head ? request_type(id) : NULL;
    void *request = type ? UA_new(type) : NULL;
    if(!request)
        return false;
    const UA_ByteString rest = {body->length - *head, body->data + *head};
    bool good = UA_decodeBinary(&rest, request, type, NULL) == UA_STATUSCODE_GOOD;
    if(good && UA_encodeBinary(request, type, again, NULL) != UA_STATUSCODE_GOOD) {
        fprintf(stderr, "what was decoded cannot be encoded\n");
        exit(1);
    }
    UA_delete(request, type);
    return good;
}

int main(void) {
    static UA_Byte bytes[LONGEST];
    uint32_t length;
    while(fread(&length, sizeof length, 1, stdin) == 1) {
        UA_ByteString body = {length, bytes}, again = UA_BYTESTRING_NULL;
        if(length > LONGEST || fread(bytes, 1, length, stdin) != length)
            return 1;
        size_t head;
        uint32_t all = UINT32_MAX;
        bool good = decoded(&body, &again, &head);
        if(good)
            all = (uint32_t)(head + again.length);
        fwrite(&all, sizeof all, 1, stdout);
        if(good) {
            fwrite(bytes, 1, head, stdout);
            fwrite(again.data, 1, again.length, stdout);
        }
        UA_ByteString_clear(&again);
        fflush(stdout);
    }
    return 0;
}
