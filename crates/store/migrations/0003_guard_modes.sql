-- What administrators ordered of guards: whether they hold denials or only observe. A guard that is not here goes by its own configuration.
CREATE TABLE guard_modes (
    server  TEXT PRIMARY KEY,
    mode    TEXT NOT NULL,
    changed BIGINT NOT NULL
);
