-- +goose Up
CREATE TABLE selections (
    id           TEXT NOT NULL PRIMARY KEY,
    environment  TEXT NOT NULL REFERENCES environments (id),
    title        TEXT NOT NULL,
    state        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    owner        TEXT NOT NULL,
    owner_name   TEXT NOT NULL,
    owner_email  TEXT NOT NULL,
    rule         TEXT NOT NULL,
    sessions     BIGINT NOT NULL,
    base         TEXT NOT NULL,
    base_commit  TEXT NOT NULL,
    snapshot     TEXT NOT NULL,
    budget_wall  BIGINT NOT NULL,
    budget_money BIGINT NOT NULL,
    picked       TEXT NOT NULL,
    picked_by    TEXT NOT NULL,
    created      BIGINT NOT NULL,
    updated      BIGINT NOT NULL,
    -- not part of the record
    client_id    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX selections_state ON selections (state, id);
CREATE INDEX selections_environment ON selections (environment, id);
CREATE UNIQUE INDEX selections_client_id ON selections (owner, client_id) WHERE client_id <> '';

-- A session that belongs to none has the empty word.
ALTER TABLE sessions ADD COLUMN selection TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN seed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sessions_selection ON sessions (selection, seed) WHERE selection <> '';
