-- Times are microseconds since 1970-01-01T00:00:00Z; thumbprints are lower-case hexadecimal SHA-256 over the DER.
CREATE TABLE applications (
    uri         TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    secret_hash TEXT,
    enabled     BOOLEAN NOT NULL,
    created     BIGINT NOT NULL
);
CREATE TABLE application_certificates (
    thumbprint  TEXT PRIMARY KEY,
    application TEXT NOT NULL REFERENCES applications (uri) ON DELETE CASCADE
);
CREATE INDEX application_certificates_by_application ON application_certificates (application);

CREATE TABLE users (
    name          TEXT PRIMARY KEY,
    password_hash TEXT,
    enabled       BOOLEAN NOT NULL,
    created       BIGINT NOT NULL
);
CREATE TABLE user_certificates (
    thumbprint TEXT PRIMARY KEY,
    person     TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE
);
CREATE INDEX user_certificates_by_person ON user_certificates (person);
CREATE TABLE memberships (
    person TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (person, kind, name)
);

CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    subject      TEXT NOT NULL,
    application  TEXT,
    audience     TEXT NOT NULL,
    confirmation TEXT,
    flow         TEXT NOT NULL,
    issued       BIGINT NOT NULL,
    not_before   BIGINT NOT NULL,
    expires      BIGINT NOT NULL,
    epoch        BIGINT NOT NULL,
    revoked      BIGINT
);
CREATE INDEX tokens_by_expiry ON tokens (expires);
CREATE INDEX tokens_by_subject ON tokens (subject, issued);

CREATE TABLE grants (
    id        TEXT PRIMARY KEY,
    token     TEXT NOT NULL,
    audience  TEXT NOT NULL,
    principal TEXT NOT NULL,
    spec      TEXT NOT NULL,
    expires   BIGINT NOT NULL,
    changed   BIGINT NOT NULL
);
CREATE INDEX grants_by_expiry ON grants (expires);
CREATE INDEX grants_by_token ON grants (token);

CREATE TABLE refresh_tokens (
    hash         TEXT PRIMARY KEY,
    principal    TEXT NOT NULL,
    audience     TEXT NOT NULL,
    confirmation TEXT,
    family       TEXT NOT NULL,
    expires      BIGINT NOT NULL
);
CREATE INDEX refresh_tokens_by_family ON refresh_tokens (family);

CREATE TABLE revocations (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    token    TEXT NOT NULL UNIQUE,
    audience TEXT NOT NULL,
    at       BIGINT NOT NULL,
    by_whom  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    epoch    BIGINT NOT NULL,
    expires  BIGINT NOT NULL
);

CREATE TABLE workflows (
    name    TEXT PRIMARY KEY,
    net     TEXT NOT NULL,
    marking TEXT NOT NULL,
    version BIGINT NOT NULL,
    changed BIGINT NOT NULL
);

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('epoch', 0);
