// What the open62541 client and server share: files, options and the JSON lines of interop/README.md.
#ifndef SHARED_H
#define SHARED_H

#include <open62541/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMESPACE "urn:trapkey:interop"
#define MAX_TRUSTED 16

// Prints one JSON line. A status of 0 means that there is none to tell.
static inline bool report(const char *step, bool ok, const char *detail, UA_StatusCode status) {
    printf("{\"step\": \"%s\", \"ok\": %s, \"detail\": \"", step, ok ? "true" : "false");
    for(const char *at = detail; *at; at++)
        putchar((*at == '"' || *at == '\\' || (unsigned char)*at < 0x20) ? ' ' : *at);
    if(status)
        printf("\", \"status\": \"0x%08X\"}\n", status);
    else
        printf("\"}\n");
    fflush(stdout);
    return ok;
}

static inline UA_ByteString read_file(const char *path) {
    UA_ByteString content = UA_BYTESTRING_NULL;
    FILE *file = path ? fopen(path, "rb") : NULL;
    if(!file)
        return content;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    if(size > 0 && UA_ByteString_allocBuffer(&content, (size_t)size) == UA_STATUSCODE_GOOD &&
       fread(content.data, 1, content.length, file) != content.length)
        UA_ByteString_clear(&content);
    fclose(file);
    return content;
}

// Reads the files of a list with commas; returns how many there are.
static inline size_t read_files(const char *paths, UA_ByteString *into) {
    size_t count = 0;
    char *copy = strdup(paths ? paths : "");
    for(char *path = strtok(copy, ","); path && count < MAX_TRUSTED; path = strtok(NULL, ","))
        into[count++] = read_file(path);
    free(copy);
    return count;
}

// The value after `--name`, or NULL.
static inline const char *option(int argc, char **argv, const char *name) {
    for(int i = argc - 2; i > 0; i--)
        if(strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

static inline bool flag(int argc, char **argv, const char *name) {
    for(int i = 1; i < argc; i++)
        if(strcmp(argv[i], name) == 0)
            return true;
    return false;
}

// Splits "left SEPARATOR right" into two; the caller frees `left`.
static inline char *split(const char *text, char separator, char **right) {
    char *left = strdup(text);
    char *at = strchr(left, separator);
    *right = at ? at + 1 : left + strlen(left);
    if(at)
        *at = 0;
    return left;
}

#endif
