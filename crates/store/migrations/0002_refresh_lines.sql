-- A line of refresh tokens: everything that was refreshed from one token. It has an end that no refresh moves, and a line that is
-- gone takes no further token, also none that is being made at the moment.
CREATE TABLE refresh_lines (
    family       TEXT PRIMARY KEY,
    person       TEXT,
    application  TEXT,
    confirmation TEXT,
    ends         BIGINT NOT NULL
);
CREATE INDEX refresh_lines_by_person ON refresh_lines (person);
CREATE INDEX refresh_lines_by_application ON refresh_lines (application);
INSERT INTO refresh_lines (family, confirmation, ends)
    SELECT family, MAX(confirmation), MAX(expires) FROM refresh_tokens GROUP BY family;
